"""Sentry: an issue for a failed attempt, a transaction for each attempt, and the trace carried from the enqueue to the work.

    sentry_sdk.init(...)
    registry = Registry(hooks=[Sentry()])
    client = Client(hooks=[Sentry()])

One object serves all threads of a process; it runs in the thread or event loop that enqueues, and where a job runs. The names of
operations and data are those that Sentry's page of queues reads. An attempt has an isolation scope of its own, so the breadcrumbs
and tags of one job never stand on another's report.

Invariant: without `sentry_sdk.init` nothing happens. It deliberately patches nothing, and reports no decisions (`Snooze`,
`Cancel`, `Retry` ...): only exceptions and timeouts are errors. Issues are made of exceptions and not of fastq's log, which tells
the same.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastq.events import LOGGER
from fastq.hooks.leaving import before_the_end
from fastq.integrations.watching import Watch, Watcher, carried, carry
from fastq.jobs.outcome import Verdict

# The package is an extra: a checker has nothing to say where it is not installed.
# pyright: reportMissingImports=false
try:
    import sentry_sdk
    from sentry_sdk import utils
    from sentry_sdk.integrations.logging import ignore_logger
except ImportError as missing:
    raise ImportError(
        "fastq.integrations.sentry: expected the package sentry-sdk, which is not installed; pip install 'fastq-jobs[sentry]'"
    ) from missing

from fastq.integrations.crons import CheckIns  # behind the check that the package is there

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.args.hook import Enqueuing
    from fastq.jobs.job import Job
    from fastq.jobs.registry import Registry

CARRIED = "sentry"
"""The name of the carried value: sentry-trace and baggage, and the time for which the job was enqueued."""

DUE = "due"
ORIGIN = "auto.queue.fastq"
PUBLISH, PROCESS = "queue.publish", "queue.process"
"""The operations of Sentry's page of queues."""


class Sentry(Watcher):
    """Reports to Sentry; `last_only`: a failed attempt that is followed by another one is no issue.

    `crons=lambda: registry`: the periodic jobs of the registry check in at Sentry's page of crons (crons.py).
    """

    def __init__(self, *, last_only: bool = False, crons: Callable[[], Registry] | None = None) -> None:
        self.last_only = last_only
        self._check_ins = None if crons is None else CheckIns(crons)
        ignore_logger(LOGGER.name)
        register = getattr(utils, "_register_control_flow_exception", None)  # what the SDK's own integrations call
        if register is not None:
            register([Verdict])  # passing through a span of the user's it is no error either
        before_the_end(_flush)

    def enqueue(self, enqueuing: Enqueuing) -> None:
        """Make a span where a transaction runs, and have the trace travel with the job."""
        if not sentry_sdk.get_client().is_active():
            return
        with ExitStack() as stack:
            if (_streams() or sentry_sdk).get_current_span() is not None:
                stack.enter_context(_publishing(enqueuing))
            headers = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage(), DUE: _due(enqueuing)}
        carry(enqueuing, CARRIED, {name: value for name, value in headers.items() if value})

    def watch(self, job: Job[Any]) -> Watch:
        """Make the transaction of an attempt."""
        if not sentry_sdk.get_client().is_active():
            return Watch(job)
        return _Attempt(job, last_only=self.last_only, check_ins=self._check_ins)


class _Attempt(Watch):
    """The isolation scope and the transaction of one attempt."""

    def __init__(self, job: Job[Any], *, last_only: bool, check_ins: CheckIns | None) -> None:
        super().__init__(job)
        self._last_only = last_only
        self._check_ins = check_ins
        self._stack = ExitStack()

    def begin(self) -> None:
        job, headers = self.job, carried(self.job, CARRIED)
        scope = self._stack.enter_context(sentry_sdk.isolation_scope())
        scope.clear_breadcrumbs()
        scope.set_tags({"fastq.kind": job.kind, "fastq.queue": job.queue, "fastq.attempt": job.attempt})
        self._scope = scope
        traced = headers if job.attempt == 1 else {}  # a retry is a trace of its own, for its time may be far from the first
        self._span = self._stack.enter_context(_processing(job.kind, traced, _data(job, headers)))
        if self._check_ins is not None:
            self._check_ins.begin(job)

    def end(self, outcome: str, error: BaseException | None) -> None:
        with self._stack:
            _tell_end(self._span, outcome, failed=error is not None)
            again = outcome == "failed"
            if error is not None and not (self._last_only and again):
                self._report(error, again=again)
            if self._check_ins is not None:
                self._check_ins.end(self.job, outcome)

    def _report(self, error: BaseException, *, again: bool) -> None:
        """Make an issue of an error."""
        job, options = self.job, sentry_sdk.get_client().options
        self._scope.set_context("job", {"id": job.id, "max_attempts": job.max_attempts, "will_retry": again})
        mechanism = {"type": "fastq", "handled": False}
        event, hint = utils.event_from_exception(error, client_options=options, mechanism=mechanism)
        sentry_sdk.capture_event(event, hint=hint)


def _streams() -> Any:
    """Return the SDK's module of spans that are sent in streams if the application has chosen these, else None."""
    options = sentry_sdk.get_client().options
    chosen = options.get("trace_lifecycle") or (options.get("_experiments") or {}).get("trace_lifecycle")
    return getattr(sentry_sdk, "traces", None) if chosen == "stream" else None


def _publishing(enqueuing: Enqueuing) -> Any:
    """Begin the span of an enqueue."""
    data, streams = {"messaging.system": "fastq", "messaging.destination.name": enqueuing.queue}, _streams()
    if streams is not None:
        return streams.start_span(name=enqueuing.kind, attributes=_attributes(PUBLISH, data))
    span = sentry_sdk.start_span(op=PUBLISH, name=enqueuing.kind, origin=ORIGIN)
    for name, value in data.items():
        span.set_data(name, value)
    return span


def _processing(kind: str, headers: dict[str, str], data: dict[str, Any]) -> Any:
    """Begin the transaction of an attempt, which goes on with the trace of the headers, or begins one if there are none."""
    streams = _streams()
    if streams is not None:
        if headers:
            streams.continue_trace(headers)
        else:
            streams.new_trace()
        attributes = {**_attributes(PROCESS, data), "sentry.segment.name.source": "task"}
        return streams.start_span(name=kind, attributes=attributes, parent_span=None)
    continued = sentry_sdk.continue_trace(headers, op=PROCESS, name=kind, source="task", origin=ORIGIN)
    transaction = sentry_sdk.start_transaction(continued)
    for name, value in data.items():
        transaction.set_data(name, value)
    return transaction


def _attributes(op: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"sentry.op": op, "sentry.origin": ORIGIN, **data}


def _tell_end(span: Any, outcome: str, *, failed: bool) -> None:
    """Note on a transaction how the attempt has ended."""
    if _streams() is not None:
        span.set_attribute("fastq.outcome", outcome)
        span.status = "error" if failed else "ok"
    else:
        span.set_data("fastq.outcome", outcome)
        span.set_status("internal_error" if failed else "ok")


def _data(job: Job[Any], headers: dict[str, str]) -> dict[str, Any]:
    """Return the data that Sentry's page of queues reads, as far as they are known."""
    data = {
        "messaging.system": "fastq",
        "messaging.message.id": str(job.id),
        "messaging.destination.name": job.queue,
        "messaging.message.retry.count": job.attempt - 1,
    }
    if job.attempt == 1:  # a retry has waited on purpose, and nobody has noted since when it could have run
        due = float(headers.get(DUE) or job.created_at.timestamp())
        data["messaging.message.receive.latency"] = max(0.0, (time.time() - due) * 1000)
    return data


def _due(enqueuing: Enqueuing) -> str:
    """Return the time for which a job is enqueued, empty if that is now; a wrong option is left to the checks that follow."""
    at, delay = enqueuing.options.get("at"), enqueuing.options.get("delay")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(at, datetime):
        return str(at.timestamp())
    return str(time.time() + seconds) if isinstance(seconds, int | float) else ""


def _flush(seconds: float) -> None:
    """Have the SDK send its reports."""
    sentry_sdk.flush(timeout=seconds)
