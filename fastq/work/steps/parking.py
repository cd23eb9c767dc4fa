"""The ways out of a run of a job with steps: it sleeps, waits for a signal, makes way for the end of its process, or is lost.

Made in the thread or on the event loop that executes the job (reaching.py). Each is an exception that passes through the user's
code, and none is an `Exception`, so that no `except Exception: log and go on` swallows it. In case that something does,
`job.outcome` is a standing one: it stays if `work` returns, and says that the attempt has failed.

Invariant: a run that has parked never ends its job as completed. It deliberately writes nothing: the completer does, once
`work` has ended, so no other process has the job while its `finally` runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.jobs import outcome
from fastq.jobs.outcome import Fate, Standing, Verdict
from fastq.work.execute.settle import settle

if TYPE_CHECKING:
    from fastq.jobs.job import Job


class Parked(Verdict):
    """Run the job again after so many seconds, or upon a signal; it spends no attempt."""

    def __init__(self, seconds: float, signal: str | None = None, seen: int = 0) -> None:
        super().__init__(seconds, signal, seen)
        self.seconds = seconds
        self.signal = signal
        self.seen = seen  # signals that the job had been sent

    def said(self) -> Parked:
        """Return another one that says the same."""
        return Parked(self.seconds, self.signal, self.seen)

    @property
    def fate(self) -> Fate:
        """Run the job again after the seconds; one that waits for a signal is written by a statement of its own."""
        parks = None if self.signal is None else msgspec.json.encode([self.signal, self.seen]).decode()
        return Fate(delay=self.seconds, parks=parks)


class Interrupted(Verdict):
    """Have the job go on in another process, at once; it spends no attempt."""

    def said(self) -> Interrupted:
        """Return another one."""
        return Interrupted()

    @property
    def fate(self) -> Fate:
        """Hand the job back."""
        return Fate()


class Leaving(Standing):
    """The job has parked, or makes way: `work` is to end by the exception that says so."""

    told = ""

    def __init__(self, job: Job[Any], what: str, verdict: Verdict) -> None:
        self._verdict = verdict.said()
        text = (
            f"{what} has ended this run of the job by an exception, and work went on: let each BaseException pass, and keep "
            "return, break and continue out of finally"
        )
        self.fate = outcome.failed(job, text).fate

    def after(self, job: Job[Any], value: object, error: BaseException | None, *, leaving: bool) -> object:
        """Park the job; or take an error for what it is, such as a timeout while `work` ended. After a value, stay."""
        if error is None:
            return self
        if _leaves(error):
            return self._verdict
        job.outcome = None
        return settle(job, value, error, leaving=leaving)


class TakenAway(Standing):
    """The job was taken away: no value and no error of this attempt counts any more."""

    fate = Fate(elsewhere=True, unsure=True)

    def after(self, job: Job[Any], value: object, error: BaseException | None, *, leaving: bool) -> object:  # noqa: ARG002 - Standing's
        """Stay."""
        return self


def _leaves(error: BaseException) -> bool:
    """Tell whether an error says that the job leaves its run, or is a group of such errors, as a TaskGroup makes of them."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_leaves, error.exceptions))
    return isinstance(error, Parked | Interrupted)


def described(verdict: Parked) -> dict[str, object]:
    """Return the fields of an event about a parked job."""
    seconds = None if math.isinf(verdict.seconds) else round(verdict.seconds, 3)
    return {"seconds": seconds, "signal": verdict.signal}
