"""OpenTelemetry: a span for each enqueue and each attempt, the trace carried from the one to the other, and measurements.

    tracing = Tracing()
    registry = Registry(hooks=[tracing])
    client = Client(hooks=[tracing])

One object serves all threads of a process, and never changes; its spans are made in the thread or event loop that enqueues, and
where a job runs, and the watch of an attempt is that attempt's alone. It depends on the API of OpenTelemetry alone: the
application sets up the SDK, and without one nothing is made, and only the baggage and the trace of a caller pass through. Names
are those of the semantic conventions for messaging.

A job may run days after its enqueue, and again after that. So an attempt is a trace of its own, with a link to the enqueue;
with `parent=True` the first attempt joins the trace of the enqueue, and retries are still traces of their own.

Invariant: no attribute holds args. It deliberately makes no span of claims, completions and other loops, which have no end.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastq.hooks.leaving import before_the_end
from fastq.integrations.watching import Watch, Watcher, carried, carry
from fastq.texts import text_of

# The package is an extra: a checker has nothing to say where it is not installed.
# pyright: reportMissingImports=false
try:
    from opentelemetry import context, metrics, propagate, trace
except ImportError as missing:
    raise ImportError(
        "fastq.integrations.otel: expected the package opentelemetry-api, which is not installed; pip install 'fastq-jobs[otel]'"
    ) from missing

if TYPE_CHECKING:
    from fastq.args.hook import Enqueuing
    from fastq.jobs.job import Job

CARRIED = "otel"
"""The name of the carried value: traceparent, tracestate and baggage, or the headers of other propagators."""

SYSTEM, OPERATION, TYPE = "messaging.system", "messaging.operation.name", "messaging.operation.type"
QUEUE, ID, ERROR = "messaging.destination.name", "messaging.message.id", "error.type"
KIND, ATTEMPT, OUTCOME = "fastq.kind", "fastq.attempt", "fastq.outcome"
"""The attributes: those of the conventions, and ours."""

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 60.0, 300.0, 3600.0)
"""Seconds at which the histogram divides durations: those of the conventions up to 10, and jobs take longer than messages."""


class Tracing(Watcher):
    """Makes spans and measurements of OpenTelemetry, around enqueues and around work.

    `parent`: whether the first attempt is a child of the enqueue rather than linked with it. `enqueues`: whether each enqueue is
    a span; without it the job belongs to the span of the caller, which is cheaper for `enqueue_many`. The providers are the
    global ones if none are given.
    """

    def __init__(
        self,
        *,
        parent: bool = False,
        enqueues: bool = True,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self.parent = parent
        self._enqueues = enqueues
        self._providers = (tracer_provider, meter_provider)
        self.tracer = trace.get_tracer("fastq", tracer_provider=tracer_provider)
        meter = metrics.get_meter("fastq", meter_provider=meter_provider)
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs that were handed to the client.")
        self.consumed = meter.create_counter("messaging.client.consumed.messages", "{message}", "Attempts that have begun.")
        self.duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of attempts.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )
        before_the_end(self._flush)

    def enqueue(self, enqueuing: Enqueuing) -> None:
        """Make the span of a job that is about to be enqueued, and have the trace travel with it."""
        shared = {SYSTEM: "fastq", OPERATION: "enqueue", QUEUE: enqueuing.queue, KIND: enqueuing.kind}
        within = None
        if self._enqueues:
            attributes = {**shared, TYPE: "create"}
            span = self.tracer.start_span(f"enqueue {enqueuing.queue}", kind=trace.SpanKind.PRODUCER, attributes=attributes)
            span.end()  # the statement that sends the job is a span of the database's client
            within = trace.set_span_in_context(span)
        headers: dict[str, str] = {}
        propagate.inject(headers, within)
        carry(enqueuing, CARRIED, headers)
        self._sent.add(1, shared)

    def watch(self, job: Job[Any]) -> Watch:
        """Make the span of an attempt."""
        return _Attempt(self, job)

    def _flush(self, seconds: float) -> None:
        """Have the SDK send the spans and measurements that it has."""
        tracers, meters = self._providers
        for provider in (tracers or trace.get_tracer_provider(), meters or metrics.get_meter_provider()):
            flush = getattr(provider, "force_flush", None)  # the SDK's have it, the API knows nothing of it
            if flush is not None:
                flush(int(seconds * 1000))


class _Attempt(Watch):
    """The span of one attempt, current while the work is done."""

    def __init__(self, tracing: Tracing, job: Job[Any]) -> None:
        super().__init__(job)
        self._tracing = tracing
        self._shared = {SYSTEM: "fastq", OPERATION: "work", QUEUE: job.queue, KIND: job.kind}

    def begin(self) -> None:
        job, shared = self.job, self._shared
        came = propagate.extract(carried(job, CARRIED), context=context.Context())
        created = trace.get_current_span(came).get_span_context()
        joins = self._tracing.parent and job.attempt == 1
        within = came if joins else trace.set_span_in_context(trace.INVALID_SPAN, came)  # the baggage stays
        self._span = self._tracing.tracer.start_span(
            f"work {job.queue}",
            context=within,
            kind=trace.SpanKind.CONSUMER,
            attributes={
                **shared,
                TYPE: "process",
                ID: str(job.id),
                ATTEMPT: job.attempt,
                "fastq.max_attempts": job.max_attempts,
                "fastq.priority": job.priority,
            },
            links=[trace.Link(created)] if created.is_valid and not joins else None,
        )
        self._tracing.consumed.add(1, shared)
        self._token = context.attach(trace.set_span_in_context(self._span, within))
        self._began = time.perf_counter()

    def end(self, outcome: str, error: BaseException | None) -> None:
        took, span = time.perf_counter() - self._began, self._span
        shared = {**self._shared, OUTCOME: outcome}
        span.set_attribute(OUTCOME, outcome)
        if error is not None:
            shared[ERROR] = _name_of(error)
            span.set_attribute(ERROR, shared[ERROR])
            with suppress(Exception):  # an exception of the user's may have no text
                span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, text_of(error))
        self._tracing.duration.record(took, shared)  # while the span is the current one, so that an exemplar may name it
        context.detach(self._token)
        span.end()


def _name_of(error: BaseException) -> str:
    """Name the class of an error as the conventions want it: in full."""
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
