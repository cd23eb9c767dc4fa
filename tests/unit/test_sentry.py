"""Sentry with its real SDK: issues, transactions and traces of enqueues and attempts, as envelopes that stay in memory."""

import asyncio
import logging
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from fastq import Cancel, Cron, Discard, Every, JobTimeout, RateLimited, Registry, Retry, Snooze
from fastq.integrations.sentry import Sentry
from tests.unit.watched import MAIL, enqueued, worked


class Memory(Transport):
    """Keeps what would be sent."""

    def __init__(self, options=None):
        super().__init__(options)
        self.sent = []

    def capture_envelope(self, envelope):
        self.sent += [item.payload.json for item in envelope.items if item.payload.json]

    @property
    def issues(self):
        return [event for event in self.sent if "exception" in event or "logentry" in event]

    @property
    def check_ins(self):
        return [event for event in self.sent if "check_in_id" in event]

    @property
    def transactions(self):
        return [event for event in self.sent if event.get("type") == "transaction"]


@contextmanager
def program(**options):
    """Set the SDK up, and take it back."""
    memory = Memory()
    with sentry_sdk.isolation_scope(), sentry_sdk.new_scope():
        sentry_sdk.init("https://key@sentry.invalid/1", transport=memory, traces_sample_rate=1.0, **options)
        sentry_sdk.get_isolation_scope().set_new_propagation_context()
        yield memory
        sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def sentry():
    """Give a program with the SDK, and take it back."""
    with program(default_integrations=False) as memory:
        yield memory


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request):
    return request.param


def fail(job):
    sentry_sdk.add_breadcrumb(message=f"attempt {job.attempt}")
    raise LookupError("no such user")


def test_an_attempt_is_a_transaction_with_the_data_of_the_queues_page(sentry, is_async):
    created = datetime.now(UTC) - timedelta(seconds=30)

    assert worked(Sentry(), lambda job: 5, is_async=is_async, created_at=created) == 5

    [transaction] = sentry.transactions
    told = transaction["contexts"]["trace"]
    assert (transaction["transaction"], told["op"], told["status"], told["origin"]) == (
        "mail",
        "queue.process",
        "ok",
        "auto.queue.fastq",
    )
    latency = told["data"].pop("messaging.message.receive.latency")
    assert 30_000 <= latency < 60_000
    assert {name: value for name, value in told["data"].items() if name.startswith(("messaging", "fastq"))} == {
        "messaging.system": "fastq",
        "messaging.message.id": "7",
        "messaging.destination.name": "mails",
        "messaging.message.retry.count": 0,
        "fastq.outcome": "completed",
    }
    assert transaction["tags"] == {"fastq.kind": "mail", "fastq.queue": "mails", "fastq.attempt": 1}
    assert sentry.issues == []


def test_an_enqueue_in_a_transaction_is_a_span_and_the_first_attempt_goes_on_with_its_trace(sentry, is_async):
    with sentry_sdk.start_transaction(name="request") as request:
        carried = enqueued(Sentry())
    worked(Sentry(), lambda job: None, is_async=is_async, carried=carried)
    worked(Sentry(), lambda job: None, is_async=is_async, carried=carried, attempt=2)

    requested, first, second = sentry.transactions
    [span] = requested["spans"]
    assert (span["op"], span["description"], span["data"]["messaging.destination.name"]) == ("queue.publish", "mail", "mails")
    trace = first["contexts"]["trace"]
    assert (trace["trace_id"], trace["parent_span_id"]) == (request.trace_id, span["span_id"])
    assert second["contexts"]["trace"]["trace_id"] != request.trace_id
    assert second["contexts"]["trace"]["data"]["messaging.message.retry.count"] == 1


def test_an_enqueue_outside_of_a_transaction_makes_none_and_still_carries_the_trace(sentry):
    carried = enqueued(Sentry())

    assert sentry.sent == []
    assert carried["sentry"]["sentry-trace"].startswith(sentry_sdk.get_traceparent()[:32])


def test_a_job_for_later_has_waited_since_its_time(sentry):
    carried = enqueued(Sentry(), delay=timedelta(seconds=-10))

    worked(Sentry(), lambda job: None, is_async=False, carried=carried, created_at=datetime.now(UTC) - timedelta(hours=1))

    data = sentry.transactions[0]["contexts"]["trace"]["data"]
    assert 10_000 <= data["messaging.message.receive.latency"] < 40_000


def test_each_failed_attempt_is_an_issue_with_its_own_tags_and_breadcrumbs(sentry, is_async):
    for attempt in (1, 2, 3):
        assert isinstance(worked(Sentry(), fail, is_async=is_async, attempt=attempt), LookupError)

    assert [issue["tags"]["fastq.attempt"] for issue in sentry.issues] == [1, 2, 3]
    assert [issue["contexts"]["job"]["will_retry"] for issue in sentry.issues] == [True, True, False]
    assert [[crumb["message"] for crumb in issue["breadcrumbs"]["values"]] for issue in sentry.issues] == [
        ["attempt 1"],
        ["attempt 2"],
        ["attempt 3"],
    ]
    [exception] = sentry.issues[0]["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("LookupError", "no such user")
    assert exception["mechanism"] == {"type": "fastq", "handled": False}
    assert {transaction["contexts"]["trace"]["status"] for transaction in sentry.transactions} == {"internal_error"}
    assert sentry.issues[0]["contexts"]["trace"]["trace_id"] == sentry.transactions[0]["contexts"]["trace"]["trace_id"]


def test_with_last_only_only_the_last_attempt_is_an_issue(sentry, is_async):
    for attempt in (1, 2, 3):
        worked(Sentry(last_only=True), fail, is_async=is_async, attempt=attempt)

    assert [issue["tags"]["fastq.attempt"] for issue in sentry.issues] == [3]
    assert len(sentry.transactions) == 3


def test_an_attempt_after_which_no_other_comes_in_time_is_the_last(sentry, is_async):
    for seconds in ("+3600", "+30"):
        worked(Sentry(), fail, is_async=is_async, times={"keep_trying_for": seconds}, max_attempts=1_000)
        worked(Sentry(last_only=True), fail, is_async=is_async, times={"keep_trying_for": seconds}, max_attempts=1_000)

    assert [issue["contexts"]["job"]["will_retry"] for issue in sentry.issues] == [True, False, False]


@pytest.mark.parametrize("decision", [Snooze(5), RateLimited(5), Cancel("no"), Discard("no"), Retry(5)], ids=repr)
@pytest.mark.parametrize("way", ["returned", "raised"])
def test_a_decision_is_no_error(sentry, is_async, decision, way):
    def decide(job):
        if way == "returned":
            return decision
        with sentry_sdk.start_span(op="step", name="a span of the user's"):
            raise decision

    assert worked(Sentry(), decide, is_async=is_async) == decision

    [transaction] = sentry.transactions
    assert sentry.issues == []
    assert transaction["contexts"]["trace"]["status"] == "ok"
    assert {span.get("status") for span in transaction["spans"]} <= {None, "ok"}


def test_a_timeout_on_the_event_loop_is_reported_as_one_with_the_place_where_it_struck(sentry):
    def late(job):
        raise asyncio.CancelledError(JobTimeout("took longer than 5 s"))

    worked(Sentry(), late, is_async=True)

    exceptions = sentry.issues[0]["exception"]["values"]
    assert exceptions[-1]["type"] == "JobTimeout"
    assert exceptions[-1]["stacktrace"]["frames"][-1]["function"] == "late"


def test_tags_and_breadcrumbs_of_a_job_do_not_outlive_it(sentry, is_async):
    worked(Sentry(), fail, is_async=is_async)
    sentry_sdk.capture_exception(ValueError("of the program"))

    issue = sentry.issues[-1]
    assert "fastq.kind" not in issue.get("tags", {})
    assert issue.get("breadcrumbs", {}).get("values", []) == []


def test_our_own_log_makes_no_issues():
    with program(auto_enabling_integrations=False) as memory:
        Sentry()
        logging.getLogger("fastq").error("job.failed")
        logging.getLogger("application").error("of the application")

    assert [issue["logentry"]["message"] for issue in memory.issues] == ["of the application"]


def test_without_a_client_nothing_happens_and_the_work_is_done(is_async):
    assert enqueued(Sentry()) == {}
    assert worked(Sentry(), lambda job: 5, is_async=is_async) == 5


@pytest.mark.skipif(not hasattr(sentry_sdk, "traces"), reason="this version of the SDK has no streams")
def test_spans_in_streams_hang_together_as_transactions_do(is_async):
    with program(default_integrations=False, trace_lifecycle="stream") as memory:
        with sentry_sdk.traces.start_span(name="request") as request:
            carried = enqueued(Sentry())
        for attempt in (1, 2):
            worked(Sentry(), fail, is_async=is_async, carried=carried, attempt=attempt)
        worked(Sentry(), lambda job: Snooze(5), is_async=is_async)

    spans = [item for sent in memory.sent if "items" in sent for item in sent["items"] if "span_id" in item]
    requested = request.span_id
    by_op = {}
    for span in sorted(spans, key=lambda span: span["start_timestamp"]):  # the SDK sends them trace by trace, in any order
        by_op.setdefault(span["attributes"].get("sentry.op", {}).get("value"), []).append(span)
    [published] = by_op["queue.publish"]
    first, second, third = by_op["queue.process"]
    assert (published["parent_span_id"], first["parent_span_id"]) == (requested, published["span_id"])
    assert len({published["trace_id"], first["trace_id"], second["trace_id"], third["trace_id"]}) == 3
    assert [span["status"] for span in (first, second, third)] == ["error", "error", "ok"]
    assert first["attributes"]["messaging.destination.name"]["value"] == "mails"
    assert [span["attributes"]["fastq.outcome"]["value"] for span in (first, second, third)] == ["failed", "failed", "snoozed"]
    assert [issue["contexts"]["trace"]["trace_id"] for issue in memory.issues] == [first["trace_id"], second["trace_id"]]


def monitored(schedule=Cron("0 3 * * mon-fri", tz="Europe/Berlin")):  # noqa: B008 - never changed
    """Return the hook of a registry with a periodic job of this schedule."""
    registry = Registry()
    registry.periodic("Nightly.report", schedule, {}, kind=MAIL)
    return Sentry(crons=lambda: registry)


def nightly(hook, body, **options):
    return worked(hook, body, is_async=False, tags=["periodic:Nightly.report", "tick:2026-11-19T03:00:00.000000Z"], **options)


def test_a_periodic_job_checks_in_when_it_begins_and_when_it_has_ended_with_its_schedule(sentry):
    nightly(monitored(), lambda job: 5)

    begun, ended = sentry.check_ins
    assert (begun["monitor_slug"], begun["status"], ended["status"]) == ("nightly-report", "in_progress", "ok")
    assert begun["check_in_id"] == ended["check_in_id"]
    assert begun["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 3 * * mon-fri"},
        "timezone": "Europe/Berlin",
    }


def test_a_failed_attempt_is_no_end_and_the_last_one_is_an_error_of_the_same_check_in(sentry):
    hook = monitored()
    for attempt in (1, 2, 3):
        nightly(hook, fail, attempt=attempt)

    begun, ended = sentry.check_ins
    assert (begun["status"], ended["status"]) == ("in_progress", "error")
    assert begun["check_in_id"] == ended["check_in_id"]


@pytest.mark.parametrize(("decision", "status"), [(Cancel("no need"), "ok"), (Discard("no hope"), "error")])
def test_a_decision_that_ends_a_periodic_job_ends_its_check_in(sentry, decision, status):
    nightly(monitored(), lambda job: decision)

    assert [told["status"] for told in sentry.check_ins] == ["in_progress", status]


@pytest.mark.parametrize("decision", [Snooze(5.0), RateLimited(5.0), Retry(5.0)])
def test_a_decision_that_has_the_job_run_again_ends_no_check_in(sentry, decision):
    nightly(monitored(), lambda job: decision)

    assert [told["status"] for told in sentry.check_ins] == ["in_progress"]


@pytest.mark.parametrize(
    ("schedule", "config"),
    [
        (Every(3600.0), {"schedule": {"type": "interval", "value": 60, "unit": "minute"}, "timezone": "UTC"}),
        (Every(30.0), None),
        (Every(90.0), None),
        (Cron("0 3 l * *"), None),
        (Cron("0 3 * * mon#2"), None),
        (Cron("0 3 * jul *"), {"schedule": {"type": "crontab", "value": "0 3 * jul *"}, "timezone": "UTC"}),
    ],
)
def test_a_schedule_that_sentry_has_no_words_for_is_not_monitored(sentry, schedule, config):
    nightly(monitored(schedule), lambda job: None)

    assert [told["monitor_config"] for told in sentry.check_ins] == ([] if config is None else [config, config])


def test_jobs_without_a_tick_and_ticks_of_another_registry_check_in_nowhere(sentry):
    hook = monitored()

    worked(hook, lambda job: None, is_async=False)
    worked(hook, lambda job: None, is_async=False, tags=["periodic:another"])

    assert sentry.check_ins == []
    assert len(sentry.transactions) == 2
