"""Make the outcome of an attempt that has lost its process, or has got none, and report it.

Called in the thread that attends the job (apart.py), in a worker process. It keeps nothing. No code of the user's runs here: as
for a job that was given up, the next attempt comes after the default delay, whatever the worker's `retry_delay` says.

Where another attempt follows, the fate carries a note for the application's handler of crashes (hooks/handlers.py), which is
asked in the next attempt, as after the death of a worker process.

Invariant: an attempt fails once, for one cause, by whichever side its process was ended. It deliberately blames no other job, and
does not count with the deaths of worker processes that a job is blamed for: this job has shown that it takes no other along.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fastq.args.meta import CRASHED
from fastq.events import Seldom, emit
from fastq.isolate import isolation_of
from fastq.jobs import outcome
from fastq.jobs.outcome import Failed, Fate, Verdict
from fastq.texts import error_json

if TYPE_CHECKING:
    from fastq.jobs.job import Job
    from fastq.work.isolated.wire import Death

UNFORKED = 1.0
"""Seconds after which a job is claimed again that could not be given a process: the host has none left, or no memory. A guess."""

MEBIBYTE = 2**20

TIMEOUT = "timeout"
"""The cause of a crash where we have killed the process, since the job did not end in its time."""


class Told(Verdict):
    """The decision about a job that was executed in another process: the fate that was decided there."""

    def __init__(self, fate: Fate) -> None:
        super().__init__(fate)
        self._fate = fate

    def said(self) -> Told:
        """Return itself: nothing raises it, so it keeps no traceback."""
        return self

    @property
    def fate(self) -> Fate:
        """Return the fate as it was told."""
        return self._fate


def unforked(job: Job[Any], death: Death, seldom: Seldom) -> Told:
    """Hand back a job that could not be given a process; it is not charged."""
    error = os.strerror(death.failure)
    if seldom.lets(error):
        emit("job.not_forked", level=logging.WARNING, id=job.id, kind=job.kind, again_in=UNFORKED, error=error)
    return Told(Fate(delay=UNFORKED))


def killed(job: Job[Any], death: Death | None, why: str, trace: str) -> Fate:
    """Fail an attempt that took too long; its process was killed here."""
    failed = outcome.failed(job, f"JobTimeout: {why}; its process did not end, and was killed", trace=trace)
    report("job.killed", job, death, failed, reason=why, traceback=trace)
    return _noted(job, death, failed, TIMEOUT)


def crashed(job: Job[Any], death: Death | None, trace: str) -> Fate:
    """Fail an attempt that has lost its process; without a death it was the nursery that died, and took it along."""
    died = "signal 9" if death is None else _died(death.status)
    told, hint = f"the process of its own in which the job was executed died ({died})", None
    limit = getattr(isolation_of(job.batch.worker.isolate), "memory", None)
    if death is None:
        told = hint = "the nursery of the worker process died, and with it the process in which the job was executed"
    elif limit is not None:
        had = f"{death.memory / MEBIBYTE:.0f} MiB of memory at its most"
        hint = f"it had {had}, and its limit is {limit / MEBIBYTE:g} MiB beside those that it started with"
        told = f"{told}; {hint}"
    elif died == "signal 9":
        hint = "out of memory?"
    failed = outcome.failed(job, told)
    cause = failed.cause or ("crashed" if failed.delay is None else None)
    failed = Failed(error_json(told, trace, died=died), failed.delay, cause)
    report("job.crashed", job, death, failed, died=died, hint=hint, traceback=trace)
    return _noted(job, death, failed, died)


def _noted(job: Job[Any], death: Death | None, failed: Failed, cause: str) -> Fate:
    """Return the fate of the attempt; where another one follows, with a note for the handler of crashes."""
    if failed.delay is None:
        return failed.fate
    crashes = (job.meta.get(CRASHED.name) or {}).get("crashes", 0) + 1
    note = {"next": job.attempt + 1, "crashes": crashes, "cause": cause, "memory": death and death.memory}
    return replace(failed.fate, crash=json.dumps(note))


def report(name: str, job: Job[Any], death: Death | None, failed: Failed | None = None, **fields: Any) -> None:
    """Emit an event about the end of a job's process, with the bytes of memory that it had at its most."""
    tries = outcome.attempt_of(job, failed) if failed is not None else {"attempt": job.attempt}
    memory = death.memory if death is not None else None
    emit(name, level=logging.WARNING, id=job.id, kind=job.kind, **tries, memory=memory, **fields)


def _died(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit code {code}"
