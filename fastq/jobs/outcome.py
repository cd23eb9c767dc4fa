"""The outcome of an attempt, as a value that says where its job's row goes: each outcome states its own `Fate`.

Outcomes are made in a worker process, by the user's `work` and by settle.py, in the thread that executes the job: an executor's
or the event loop's. The completer's thread reads them. Attempts that end elsewhere fail there: in the watchdog (given up), the
producer (args that do not fit) and the completer (refused). Plain data, no I/O: an outcome never changes, and belongs to its job;
the functions keep nothing.

    None      completed, nothing to tell: the common case costs nothing, its fate is the constant COMPLETED
    Output    completed, with a value to keep
    Snooze    run it again later, no attempt spent        (returned or raised by `work`)
    Cancel    end it, with a reason                       (returned or raised by `work`)
    Discard   the same, as a job that has failed          (returned or raised by `work`)
    Retry     no outcome itself: the attempt fails, and says when the next one comes     (returned or raised by `work`)
    RateLimited  have it wait at its rates again, and hold its keys up   (returned or raised by `work`)
    Failed    the attempt failed; `delay` until the next one, None: discard it now
    Release   hand it back as if it had never been claimed, after `delay` seconds, or to wait for a worker of its kind
    Barred    have it wait at gates that it did not go through

The completer never asks for the type of an outcome: it sorts jobs by their fates (work/complete/writes.py). So a new outcome is a
class here with a `fate`; one that `work` may return or raise is a `Verdict`.

Making an outcome of a value or an exception runs code of the user's (`__str__`, `__repr__`, a time zone, `retry_delay`), which
may raise anything at all: it is caught where it is called. It may wait, too: a thread that all jobs depend on calls `failed`
alone, without a cause. `fate` runs none of it.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import msgspec

from fastq.args.options import MAX_DELAY as MAX_SNOOZE
from fastq.jobs.job import State
from fastq.jobs.retry import default_delay, delay_of
from fastq.results import encoding
from fastq.texts import clean, error_json, name_of, text_of, told, trace_of, without_nul

if TYPE_CHECKING:
    from fastq.jobs.job import Job

MAX_OUTPUT = 262_144
"""Bytes of JSON kept as an output; a larger value belongs into a store of the user's own."""

_read_raw = msgspec.json.Decoder(msgspec.Raw).decode


class Fate(msgspec.Struct, frozen=True, gc=False):
    """Where the row of a job goes when its attempt has ended: all that is written of an outcome."""

    state: State | None = None
    """The state in which the job ends; None: the job lives on."""

    delay: float = 0.0
    """Seconds until a job that lives on may be claimed again; endless: it waits until a process has a worker for its kind."""

    charged: bool = False
    """Whether the attempt counts, for a job that lives on or ends for a `cause`."""

    error: str | None = None
    """A JSON object that is added to the job's errors."""

    output: str | None = None
    """JSON that is kept in the archive."""

    elsewhere: bool = False
    """Whether all this is written already, in a transaction of somebody else's: the completer writes nothing then."""

    gates: str | None = None
    """JSON: gates at which a job that lives on has to wait first, for it came past them."""

    cause: str | None = None
    """Why a job ends, where that is neither its worker nor its last failure."""

    limited: float | None = None
    """Seconds for which nothing starts at the rates of a job that lives on; it waits there again."""

    parks: str | None = None
    """JSON: the signal that a job that lives on waits for, up to its delay, and how many it had been sent."""

    unsure: bool = False
    """Whether the job may have ended already, in a transaction of the user's: that its row is no longer ours is no surprise."""

    crash: str | None = None
    """JSON: the note of how the process of a job that lives on has died."""

    @property
    def fate(self) -> Fate:
        """Be an outcome as well: the completer makes one when it leaves the text of a refused outcome away."""
        return self


SUCCESS = State.COMPLETED
"""A name of its own for places that each job passes: Python 3.11 takes 0.2 us to look a member of an enum up (measured)."""

COMPLETED = Fate(SUCCESS)
"""The fate of a job that completed with nothing to tell; its outcome is None."""


def fate_of(outcome: object) -> Fate:
    """Return the fate of an outcome; TypeError if the object is no outcome, which is a mistake of the code that made it."""
    if outcome is None:
        return COMPLETED
    fate = getattr(outcome, "fate", None)
    if type(fate) is not Fate:
        raise TypeError(f"expected an outcome, which states its fate (fastq/jobs/outcome.py), got {name_of(outcome)}")
    return fate


class Output(msgspec.Struct, frozen=True):
    """A value that the worker returned, as JSON."""

    json: str

    @property
    def fate(self) -> Fate:
        """Complete the job, and keep the value."""
        return Fate(SUCCESS, 0.0, False, None, self.json)


class Failed(msgspec.Struct, frozen=True):
    """A failed attempt: the error as a JSON object, and the seconds to wait; None when there is no next attempt."""

    error: str
    delay: float | None
    cause: str | None = None  # why it is not tried again, where that is not the number of its attempts

    @property
    def fate(self) -> Fate:
        """Run the job again after the delay, or discard it."""
        if self.delay is None:
            return Fate(State.DISCARDED, charged=self.cause is not None, error=self.error, cause=self.cause)
        return Fate(delay=self.delay, charged=True, error=self.error)


class Release(msgspec.Struct, frozen=True):
    """A job to hand back without charge; after endless seconds: when a process has a worker for its kind."""

    delay: float = 0.0

    @property
    def fate(self) -> Fate:
        """Hand the job back."""
        return Fate(delay=self.delay)


class Barred(msgspec.Struct, frozen=True):
    """A job that has to wait at its gates first: the program that enqueued it did not know of them."""

    gates: str

    @property
    def fate(self) -> Fate:
        """Have the job wait."""
        return Fate(gates=self.gates)


WAITS = Release(math.inf)
"""The outcome of a job of a kind that has no worker here: the job waits until a process has one (waiting.py)."""


class Standing:
    """An outcome that a job has before its `work` has ended, since the end of the job was written in a transaction, say."""

    told = "ended"  # the word of it for those who watch; "" if they go by the value or the error of `work`

    def after(self, job: Job[Any], value: object, error: BaseException | None, *, leaving: bool) -> object:
        """Return the outcome of the attempt, now that `work` has returned a value or raised an error."""
        raise NotImplementedError


class Verdict(BaseException):
    """A decision that `work` may either return or raise. Two that say the same are equal.

    Not an `Exception`: raised deep within a worker, it must pass each `except Exception: log and go on` on its way.
    """

    def __eq__(self, other: object) -> bool:
        """Compare the decisions, not their tracebacks."""
        return isinstance(other, Verdict) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        """Go with `==`."""
        return hash((type(self), str(self)))

    def said(self) -> Verdict:
        """Return another one that says the same: one that was raised keeps its traceback, and that keeps the job."""
        raise NotImplementedError

    def because(self, error: BaseException) -> Verdict:  # noqa: ARG002 - for those that keep errors
        """Return the same decision as one about a failed attempt: where it keeps an error, it keeps this one."""
        return self

    @property
    def fate(self) -> Fate:
        """Say where the job's row goes."""
        raise NotImplementedError


class Snooze(Verdict):
    """Return or raise this from `work` to run the job again in so many seconds, or after a timedelta; it spends no attempt."""

    def __init__(self, seconds: float | timedelta) -> None:
        """Refuse anything but a time to wait; a bad value fails the attempt that made it."""
        self.seconds = _wait(f"Snooze({seconds!r})", seconds)
        super().__init__(self.seconds)

    def __repr__(self) -> str:
        """Write it as one would make it."""
        return f"Snooze(seconds={self.seconds})"

    def said(self) -> Snooze:
        """Return another one of as many seconds."""
        return Snooze(self.seconds)

    @property
    def fate(self) -> Fate:
        """Run the job again after the seconds."""
        return Fate(delay=self.seconds)


class RateLimited(Verdict):
    """Return or raise this from `work` where a call was refused as one too many (a 429), with the seconds to wait.

    The job waits at its gates again, spends no attempt, and nothing starts at the keys of its rates (`Rate`) before then. A job
    that goes through no rate is run again after that time, as by `Snooze`.
    """

    def __init__(self, after: float | timedelta) -> None:
        self.after = _wait(f"RateLimited({after!r})", after)
        super().__init__(self.after)

    def __repr__(self) -> str:
        """Write it as one would make it."""
        return f"RateLimited(after={self.after})"

    def said(self) -> RateLimited:
        """Return another one of as many seconds."""
        return RateLimited(self.after)

    @property
    def fate(self) -> Fate:
        """Have the job wait, and its keys stand still."""
        return Fate(limited=self.after)


def _wait(told: str, seconds: object) -> float:
    wait: object = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= MAX_SNOOZE:
        raise ValueError(f"{told}: expected seconds from 0 to {MAX_SNOOZE:.0f}, or a timedelta")
    return float(wait)


class _End(Verdict):
    """The end of a job, with a reason."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kept = ("", "")  # text and traceback of an error

    def __repr__(self) -> str:
        """Write it as one would make it."""
        return f"{type(self).__name__}(reason={self.reason!r})"

    def said(self) -> Self:
        """Return another one with the reason as text: an exception as the reason would keep its traceback, too."""
        other = type(self)(self.reason if type(self.reason) is str else text_of(self.reason))
        other.kept = self.kept
        return other

    def because(self, error: BaseException) -> Self:
        """Return one that keeps the error as text."""
        other = self.said()
        other.kept = (told(error), trace_of(error))
        return other

    def _error(self, done: str) -> str:
        return error_json(": ".join(filter(None, (done, self.reason, self.kept[0]))), self.kept[1])


class Cancel(_End):
    """Return or raise this from `work` to end the job for good, with the reason on record."""

    @property
    def fate(self) -> Fate:
        """End the job, with the reason as its last error."""
        return Fate(State.CANCELLED, error=self._error("cancelled") if self.reason or self.kept[0] else None)


class Discard(_End):
    """Return or raise this from `work` to end the job as failed, with the reason on record, however many attempts are left."""

    @property
    def fate(self) -> Fate:
        """End the job as one whose last attempt has failed."""
        return Fate(State.DISCARDED, error=self._error("discarded"))


class Retry(Verdict):
    """Return or raise this from `work` to fail the attempt, and have the next one in so many seconds, or after a timedelta.

    The attempt counts: a job that has no other one left is discarded.
    """

    def __init__(self, after: float | timedelta) -> None:
        self.after = _wait(f"Retry({after!r})", after)
        self.error: BaseException | None = None  # the one to keep
        super().__init__(self.after)

    def __repr__(self) -> str:
        """Write it as one would make it."""
        return f"Retry(after={self.after})"

    def because(self, error: BaseException) -> Retry:
        """Return one that keeps the error."""
        other = Retry(self.after)
        other.error = error
        return other


def of_value(value: object) -> tuple[object, str | None]:
    """Return the outcome for the value that `work` returned, and the reason if that value cannot be kept."""
    if value is None:
        return None, None
    if isinstance(value, Verdict):
        return (None, "a failed attempt") if isinstance(value, Retry) else (value.said(), None)
    try:
        encoded = encoding.written(value)
        text = encoded.decode()  # msgspec.Raw passes bytes that are no UTF-8
        _read_raw(encoded)  # msgspec.Raw may hold anything; this looks at it and makes nothing of it, in 0.2 us
        fault = encoding.endless(value) if "null" in text else None
    except BaseException as error:  # noqa: BLE001 - any object may come back, and none of them fails a job that is done
        return None, f"{name_of(value)} is no JSON value: {text_of(error)}"
    if fault is not None:
        return None, f"{fault.field or 'the value'}: {fault.reason}"
    if len(encoded) > MAX_OUTPUT:
        return None, f"{len(encoded)} bytes of JSON, {MAX_OUTPUT} are kept at most"
    return Output(without_nul(clean(text))), None


def failed(job: Job[Any], message: str, *, trace: str = "", cause: BaseException | None = None) -> Failed:
    """Return a failure of this attempt; it is the last one if the job's attempts are used up.

    `cause` is the exception that `work` raised: the worker says how long to wait after it. Without a cause no code of the
    user's runs.
    """
    if job.attempt >= job.max_attempts:
        return Failed(error_json(message, trace), None)
    attempt = job.attempt
    for rule in job.batch.around:
        attempt = rule.counted(job, attempt)
    if cause is None or job.batch.worker is None:
        return _judged(job, Failed(error_json(message, trace), default_delay(attempt)))
    delay, problem = (cause.after, "") if isinstance(cause, Retry) else delay_of(job.batch.worker, attempt, cause)
    return _judged(job, Failed(error_json(message, trace + problem), delay))


def _judged(job: Job[Any], result: Failed) -> Failed:
    """Return the failure as the rules around the job have it."""
    for rule in job.batch.around:
        result = rule.judged(job, result)
    return result


def error_of(cause: BaseException) -> BaseException:
    """Return the error that is kept of a failed attempt: of a `Retry`, the one that it was decided about."""
    return (cause.error if isinstance(cause, Retry) else None) or cause


def attempt_of(job: Job[Any], result: Failed) -> dict[str, object]:
    """Return the fields of an event for a failed attempt: its number, the number allowed, the seconds until the next one."""
    again_in = None if result.delay is None else round(result.delay, 1)
    return {"attempt": job.attempt, "max_attempts": job.max_attempts, "again_in": again_in}
