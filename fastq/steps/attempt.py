"""Keep the knowledge that one attempt has of the steps of its job: the records that it has found, the names that it has come to.

Kept by the batch of the job, by row (`JobBatch.steps`), for as long as the batch lives; made at the first step that an attempt
comes to, so a job without steps has none. Used in the thread or on the event loop that executes the job, and in the threads and
tasks that it starts: each change is a single step of the interpreter.

The methods that need the database are generators of statements (`Saying`), which the way of the process runs (through.py).

Invariants:
- Names stand for themselves. A record whose name the code no longer knows is left alone and told of, and never in the way.
- Each name is come to once in an attempt, and no step is begun within another.

It deliberately holds no job, only its numbers: a batch does not refer to its jobs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.args.meta import ATTEMPTS, STEPS
from fastq.errors import StepError
from fastq.events import emit
from fastq.steps.through import Said, Saying
from fastq.texts import clean

if TYPE_CHECKING:
    from fastq.jobs.job import Job

MAX_NAME = 200
"""Characters of a name: it is part of a key. A guess at more than anybody writes."""

STEP, CURSOR, SLEEP = "step", "cursor", "sleep"
"""The sorts of records that a job comes to by name; each has names of its own. The signals and waits are the statements' own."""


class Found(NamedTuple):
    """A record that an attempt has found."""

    left: float | None  # seconds up to the end of a sleep
    output: str | None


class Noted(NamedTuple):
    """The answer to a record."""

    ours: bool
    left: float | None  # seconds up to the end of a sleep
    allowed: int | None = None  # attempts, of a job of which they count from its last progress on


class Look(NamedTuple):
    """What a look for a signal has found."""

    output: str | None  # JSON; None: it has not come
    at: datetime | None
    late: bool  # the wait was over before it came
    left: float | None  # seconds up to the timeout; None: there is none
    seen: int  # signals that the job had been sent


_making = threading.Lock()
_within: ContextVar[tuple[Attempt, str] | None] = ContextVar("fastq_step", default=None)


class Attempt:
    """The steps of one attempt."""

    def __init__(self, job: Job[Any]) -> None:
        self.id = job.id
        self.kind = job.kind
        self.attempt = job.attempt
        self.claim = job.batch.claim
        self.steps = 0  # that it has come to
        self.last = ""  # the name of the last one
        self.over: Callable[[], BaseException] | None = None  # makes the exception that has ended this run once more
        self.memory: Any = None  # the records of a job that was made by hand
        self._found: dict[tuple[str, str], Found] | None = None if STEPS.name in job.meta or not self.claim else {}
        self._counted = ATTEMPTS.name in job.meta  # its attempts count from its last progress on
        self._named: set[tuple[str, str]] = set()
        self._told = False

    def come_to(self, sort: str, name: str) -> None:
        """Begin a step of that name; StepError if the name is none, or the step may not begin here."""
        self.check_over()
        named(f"{sort} {name!r} of job {self.id}", name)
        inside = _within.get()
        if inside is not None and inside[0] is self:
            raise StepError(
                f"{sort} {name!r} of job {self.id}: steps do not nest, and step {inside[1]!r} has not ended; call it behind that"
            )
        if (sort, name) in self._named:
            raise StepError(
                f"{sort} {name!r} of job {self.id}: expected a name of its own, and this attempt has had one of this name; in a "
                'loop write f"row {n}", or use job.cursor'
            )
        self._named.add((sort, name))
        self.steps += 1
        self.last = name

    def check_over(self) -> None:
        """Raise the exception once more that has ended this run, if there was one: the code of the job has caught it."""
        if self.over is not None:
            raise self.over()

    def recall(self, sort: str, name: str) -> Saying[Found | None]:
        """Return the record of that name, None if there is none."""
        if self._found is None:
            rows = yield Said("step_list", (self.id,))
            if not rows and self.claim:  # its meta says that there were some
                raise StepError(
                    f"job {self.id}: the records of its steps are gone, so nobody knows which are done: it had ended, longer "
                    "ago than finished jobs are kept; enqueue a new job for the rest of the work"
                )
            if self._found is None:  # of several tasks the first one counts
                self._found = {(row[0], row[1]): Found(row[6], row[7]) for row in rows if row[0] != "signal"}
        found = self._found.pop((sort, name), None)
        if found is None:
            self._tell_unknown(name)
        return found

    def note(
        self, sort: str, name: str, *, output: str | None = None, took: float | None = None, up_to: float | datetime | None = None
    ) -> Saying[Noted]:
        """Write a record."""
        [answer] = yield self.noting(sort, name, output=output, took=took, up_to=up_to)
        return noted(answer)

    def noting(
        self, sort: str, name: str, *, output: str | None = None, took: float | None = None, up_to: float | datetime | None = None
    ) -> Said:
        """Return the statement that writes a record."""
        seconds, when = (None, up_to) if isinstance(up_to, datetime) else (up_to, None)
        statement = "step_note_counted" if self._counted and sort != SLEEP else "step_note"
        return Said(statement, (self.id, self.claim, sort, name, self.attempt, seconds, when, took, output))

    def look_for(self, name: str, timeout: float | None) -> Saying[Look | None]:
        """Look for a signal; None if the job is no longer ours."""
        self._forget("wait", name)
        while True:
            [(ours, *rest)] = yield Said("step_wait", (self.id, self.claim, name, self.attempt, timeout))
            look = Look(*rest)
            if not ours:
                return None
            if look.late or look.output is not None or look.left is None or look.left > 0:
                return look

    def _forget(self, sort: str, name: str) -> None:
        if self._found:
            self._found.pop((sort, name), None)

    def _tell_unknown(self, name: str) -> None:
        """Tell, once in an attempt, of records that the code has not come to when it came to a new step."""
        if self._found and not self._told:
            self._told = True
            names = ", ".join(sorted(each for _, each in self._found))
            emit("step.unknown", level=logging.WARNING, id=self.id, kind=self.kind, names=names, before=name)

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Run the function of a step."""
        before = _within.set((self, name))
        try:
            yield
        finally:
            _within.reset(before)


def noted(answer: Sequence[Any]) -> Noted:
    """Read the answer to the statement that writes a record."""
    ours, *rest = answer
    return Noted(bool(ours), *rest)


def named(what: str, name: object) -> str:
    """Return a name; StepError if it is none."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or clean(name) != name:
        raise StepError(f"{what}: expected a name of 1 to {MAX_NAME} characters")
    return name


def attempt_of(job: Job[Any]) -> Attempt:
    """Return the steps of the attempt at this job; StepError if it has none."""
    batch = job.batch
    kept = batch.steps
    found = None if kept is None else kept.get(job.row)
    if found is None:
        if batch.worker is not None and batch.worker.takes_many:
            raise StepError(
                f"job {job.id}: a job of a batch worker has no steps, for its call cannot end for one job alone; write def work"
            )
        with _making:
            if batch.steps is None:
                batch.steps = {}
            found = batch.steps.setdefault(job.row, Attempt(job))
    attempt: Attempt = found
    return attempt
