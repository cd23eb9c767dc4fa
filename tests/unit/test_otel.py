"""OpenTelemetry with its real SDK: the spans and measurements of enqueues and attempts, and how they hang together."""

import asyncio
import importlib
import sys

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from fastq import Cancel, Discard, JobCancelled, JobTimeout, RateLimited, Retry, Snooze
from fastq.hooks.leaving import _functions
from fastq.integrations.otel import Tracing
from fastq.jobs.outcome import Standing
from tests.unit.watched import enqueued, worked

PAST = "2020-01-01T00:00:00+00:00"


class Telemetry:
    """A program with the SDK: its spans and measurements stay in memory."""

    def __init__(self, **options):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.hook = Tracing(tracer_provider=self.tracers, meter_provider=MeterProvider(metric_readers=[self.reader]), **options)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def points(self, name):
        [resource] = self.reader.get_metrics_data().resource_metrics
        [metrics] = [metric for scope in resource.scope_metrics for metric in scope.metrics if metric.name == name]
        return list(metrics.data.data_points)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request):
    return request.param


@pytest.fixture
def telemetry():
    return Telemetry()


def fail(job):
    raise LookupError("no such user")


def test_an_enqueue_is_a_producers_span_without_the_args(telemetry):
    enqueued(telemetry.hook)

    [span] = telemetry.spans
    assert (span.name, span.kind) == ("enqueue mails", SpanKind.PRODUCER)
    assert dict(span.attributes) == {
        "messaging.system": "fastq",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "create",
        "messaging.destination.name": "mails",
        "fastq.kind": "mail",
    }
    [sent] = telemetry.points("messaging.client.sent.messages")
    assert (sent.value, sent.attributes["messaging.destination.name"]) == (1, "mails")


def test_an_enqueue_names_the_queue_of_the_call(telemetry):
    enqueued(telemetry.hook, queue="slow")

    assert telemetry.spans[0].name == "enqueue slow"


def test_an_enqueue_is_a_child_of_the_callers_span(telemetry):
    with telemetry.tracers.get_tracer("app").start_as_current_span("request") as request:
        enqueued(telemetry.hook)

    assert telemetry.spans[0].parent.span_id == request.get_span_context().span_id


def test_without_spans_of_enqueues_the_job_belongs_to_the_callers_span():
    telemetry = Telemetry(enqueues=False)
    with telemetry.tracers.get_tracer("app").start_as_current_span("request") as request:
        carried = enqueued(telemetry.hook)

    assert [span.name for span in telemetry.spans] == ["request"]
    assert format(request.get_span_context().span_id, "016x") in carried["otel"]["traceparent"]


def test_an_attempt_is_a_trace_of_its_own_with_a_link_to_the_enqueue(telemetry, is_async):
    carried = enqueued(telemetry.hook)

    assert worked(telemetry.hook, lambda job: 5, is_async=is_async, carried=carried) == 5

    produced, span = telemetry.spans
    assert (span.name, span.kind, span.parent) == ("work mails", SpanKind.CONSUMER, None)
    assert [link.context.span_id for link in span.links] == [produced.context.span_id]
    assert span.context.trace_id != produced.context.trace_id
    assert dict(span.attributes) == {
        "messaging.system": "fastq",
        "messaging.operation.name": "work",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mails",
        "messaging.message.id": "7",
        "fastq.kind": "mail",
        "fastq.attempt": 1,
        "fastq.max_attempts": 3,
        "fastq.priority": 1,
        "fastq.outcome": "completed",
    }
    assert span.status.status_code is StatusCode.UNSET


def test_as_a_parent_the_enqueue_has_the_first_attempt_as_its_child_and_retries_linked(is_async):
    telemetry = Telemetry(parent=True)
    carried = enqueued(telemetry.hook)

    worked(telemetry.hook, fail, is_async=is_async, carried=carried)
    worked(telemetry.hook, fail, is_async=is_async, carried=carried, attempt=2)

    produced, first, second = telemetry.spans
    assert (first.parent.span_id, first.links) == (produced.context.span_id, ())
    assert second.parent is None
    assert [link.context.span_id for link in second.links] == [produced.context.span_id]


def test_a_job_that_carries_nothing_is_a_root_without_links(telemetry, is_async):
    worked(telemetry.hook, lambda job: None, is_async=is_async)
    worked(telemetry.hook, lambda job: None, is_async=is_async, carried={"otel": "a value of another hook's"})

    assert [(span.parent, span.links) for span in telemetry.spans] == [(None, ())] * 2


def test_the_span_and_the_baggage_are_current_in_the_work_and_gone_after_it(telemetry, is_async):
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    carried = enqueued(telemetry.hook)
    context.detach(token)
    seen = []

    worked(
        telemetry.hook,
        lambda job: seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("tenant"))),
        is_async=is_async,
        carried=carried,
    )

    assert seen == [(telemetry.spans[-1].context.span_id, "acme")]
    assert not trace.get_current_span().get_span_context().is_valid


def test_baggage_that_is_too_long_stays_behind_and_the_trace_goes_with_the_job(telemetry):
    token = context.attach(baggage.set_baggage("long", "x" * 3_000))
    carried = enqueued(telemetry.hook)
    context.detach(token)

    assert carried["otel"].keys() == {"traceparent"}


@pytest.mark.parametrize(("attempt", "outcome"), [(1, "failed"), (3, "discarded")])
def test_an_exception_is_recorded_and_goes_on(telemetry, is_async, attempt, outcome):
    raised = worked(telemetry.hook, fail, is_async=is_async, attempt=attempt)

    [span] = telemetry.spans
    assert isinstance(raised, LookupError)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no such user")
    assert (span.attributes["error.type"], span.attributes["fastq.outcome"]) == ("LookupError", outcome)
    [event] = span.events
    assert event.attributes["exception.message"] == "no such user"


@pytest.mark.parametrize("name", ["keep_trying_for", "deadline"])
@pytest.mark.parametrize(("moment", "outcome"), [("+3600", "failed"), ("+30", "discarded"), (PAST, "discarded")])
@pytest.mark.parametrize("way", ["failed", "decided"])
def test_a_failure_whose_next_attempt_would_come_too_late_is_the_last(telemetry, is_async, name, moment, outcome, way):
    def decide(job):
        return Retry(60)

    worked(telemetry.hook, fail if way == "failed" else decide, is_async=is_async, times={name: moment}, max_attempts=1_000)

    [span] = telemetry.spans
    assert span.attributes["fastq.outcome"] == outcome


def test_an_exception_without_a_text_is_still_the_one_that_comes_out(telemetry, is_async):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def mute(job):
        raise Mute

    assert type(worked(telemetry.hook, mute, is_async=is_async)) is Mute
    assert telemetry.spans[0].status.status_code is StatusCode.ERROR


DECISIONS = [
    (Snooze(5), "snoozed"),
    (RateLimited(5), "rate_limited"),
    (Cancel("no"), "cancelled"),
    (Discard("no"), "discarded"),
    (Retry(5), "failed"),
]


@pytest.mark.parametrize(("decision", "outcome"), DECISIONS, ids=[outcome for _, outcome in DECISIONS])
@pytest.mark.parametrize("way", ["returned", "raised"])
def test_a_decision_is_no_error(telemetry, is_async, decision, outcome, way):
    def decide(job):
        if way == "raised":
            raise decision
        return decision

    assert worked(telemetry.hook, decide, is_async=is_async) == decision

    [span] = telemetry.spans
    assert (span.status.status_code, span.attributes["fastq.outcome"], span.events) == (StatusCode.UNSET, outcome, ())
    assert "error.type" not in span.attributes


def test_a_cancelled_job_is_no_error_and_one_that_is_too_slow_is(telemetry):
    def interrupt(reason):
        raise reason

    worked(telemetry.hook, lambda job: interrupt(JobCancelled("the process stops")), is_async=False)
    worked(telemetry.hook, lambda job: interrupt(asyncio.CancelledError(JobCancelled("cancelled"))), is_async=True)
    worked(telemetry.hook, lambda job: interrupt(JobTimeout("took longer than 5 s")), is_async=False)
    worked(telemetry.hook, lambda job: interrupt(asyncio.CancelledError(JobTimeout("took longer than 5 s"))), is_async=True)

    found = [(span.attributes["fastq.outcome"], span.attributes.get("error.type")) for span in telemetry.spans]
    assert found == [("interrupted", None)] * 2 + [("failed", "fastq.jobs.job.JobTimeout")] * 2
    assert "interrupt(asyncio.CancelledError" in telemetry.spans[-1].events[0].attributes["exception.stacktrace"]


def test_a_job_that_has_ended_in_its_transaction_is_told_as_ended_and_an_error_behind_that_is_recorded(telemetry, is_async):
    def end(job):
        job.outcome = Standing()

    def end_and_fail(job):
        job.outcome = Standing()
        raise LookupError("too late")

    worked(telemetry.hook, end, is_async=is_async)
    worked(telemetry.hook, end_and_fail, is_async=is_async)

    assert [(span.attributes["fastq.outcome"], span.attributes.get("error.type")) for span in telemetry.spans] == [
        ("ended", None),
        ("ended", "LookupError"),
    ]


def test_attempts_are_counted_and_their_durations_measured(telemetry, is_async):
    worked(telemetry.hook, lambda job: None, is_async=is_async)
    worked(telemetry.hook, fail, is_async=is_async)

    [begun] = telemetry.points("messaging.client.consumed.messages")
    assert (begun.value, begun.attributes["fastq.kind"]) == (2, "mail")
    durations = telemetry.points("messaging.process.duration")
    ends = {(point.attributes["fastq.outcome"], point.attributes.get("error.type")): point.count for point in durations}
    assert ends == {("completed", None): 1, ("failed", "LookupError"): 1}
    assert durations[0].explicit_bounds[-1] == 3600


def test_without_an_sdk_nothing_is_made_and_the_work_is_done(is_async):
    hook = Tracing()

    assert enqueued(hook) == {}
    assert worked(hook, lambda job: 5, is_async=is_async) == 5


def test_what_the_sdk_keeps_is_sent_before_a_worker_process_ends(telemetry):
    flushed = []
    telemetry.tracers.force_flush = flushed.append

    next(send for send in _functions if send == telemetry.hook._flush)(2.0)

    assert flushed == [2000]


@pytest.mark.parametrize(("name", "package", "extra"), [("otel", "opentelemetry", "otel"), ("sentry", "sentry_sdk", "sentry")])
def test_a_missing_package_is_told_with_the_extra_that_brings_it(monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"fastq.integrations.{name}", raising=False)

    with pytest.raises(ImportError, match=rf"pip install 'fastq-jobs\[{extra}\]'"):
        importlib.import_module(f"fastq.integrations.{name}")
