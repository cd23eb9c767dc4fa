"""Give a job its steps: `job.step`, `step_transaction`, `cursor`, `sleep` and `wait_for`, for a thread and for an event loop.

Called in the thread or on the event loop that executes the job, or in threads and tasks of its own. In an event loop each of
them is awaited: the calls find out where they run. The parts that the two sides share are generators of statements
(attempt.py), so what stands here twice is the waiting alone.

Invariants: a step's record is committed before the call returns, and only while the job is ours; a step whose record was
committed is not run again. No statement of ours is open while the function of a step runs.

It deliberately decides nothing about the job: the way of the process makes the outcome of a job that parks (through.py).
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from fastq.args.options import MAX_DELAY
from fastq.errors import StepError
from fastq.steps import through, transacted, values
from fastq.steps.attempt import CURSOR, SLEEP, STEP, Attempt, Found, Noted, attempt_of
from fastq.steps.given import DONE, Cursor, Signal
from fastq.steps.remembered import Remembered

if TYPE_CHECKING:
    import psycopg

    from fastq.steps.through import Ways

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C")


class Stepping:
    """The part of a `Job` that is about its steps."""

    __slots__ = ()

    @overload
    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str, /) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def step(self, name: str, function: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function once in the life of this job, and give its value in each attempt: `job.step("charge", charge, 42)`.

        The value is kept as JSON and comes back as the type that the function declares to return. In an event loop: `await
        job.step("charge", charge, 42)` with an `async def`. Without a function it is a decorator. docs/steps.md has the rules.
        """
        if function is None:
            return lambda given: functools.wraps(given)(functools.partial(self.step, name, given))
        call = functools.partial(function, *args, **kwargs)
        job: Any = self
        run = Run(job, f"step {name!r} of job {job.id}")
        run.attempt.come_to(STEP, name)
        type_ = values.returned(run.what, function)
        return run.done_async(name, call, type_) if in_loop() else run.done(name, call, type_)

    @overload
    def step_transaction(
        self,
        name: str,
        function: Callable[Concatenate[psycopg.Connection[tuple[Any, ...]], P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...
    @overload
    def step_transaction(
        self,
        name: str,
        function: Callable[Concatenate[psycopg.AsyncConnection[tuple[Any, ...]], P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...
    @overload
    def step_transaction(
        self, conn: C, name: str, function: Callable[Concatenate[C, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    def step_transaction(self, first: Any, second: Any, /, *rest: Any, **kwargs: Any) -> Any:
        """Do a step in one transaction with its record: `job.step_transaction("pay", pay, 42)` calls `pay(conn, 42)`.

        What the function writes on this connection is committed together with the record, or not at all: it takes effect once in
        the life of the job. The connection is a psycopg connection to fastq's database, or yours, without an open transaction:
        `job.step_transaction(session, "pay", pay, 42)`. All else is as in `step`. docs/steps.md has the rules.
        """
        conn, name, function, *args = (None, first, second, *rest) if isinstance(first, str) else (first, second, *rest)

        def call(conn: Any) -> Any:
            return function(conn, *args, **kwargs)

        job: Any = self
        run = Run(job, f"step {name!r} of job {job.id}")
        run.attempt.come_to(STEP, name)
        type_ = values.returned(run.what, function)
        done = transacted.done_async if in_loop() else transacted.done
        return done(run, name, conn, call, type_)

    def cursor(self, name: str, start: T) -> Cursor[T]:
        """Return how far a loop of this job has come: `rows = job.cursor("rows", 0)`, then `rows.value` and `rows.advance(to)`.

        In an event loop: `rows = await job.cursor("rows", 0)` and `await rows.advance(to)`.
        """
        job: Any = self
        run = Run(job, f"cursor {name!r} of job {job.id}")
        run.attempt.come_to(CURSOR, name)
        made: Cursor[T] = Cursor(name, start)
        if in_loop():
            return made.looked_up_by(run.positioned_async(made))
        run.positioned(made)
        return made

    def sleep(self, seconds: float | timedelta, *, name: str | None = None) -> Awaitable[None]:
        """End this run, and go on in another one after the time: no thread and no attempt is spent on it.

        Its record has the name of the step before it, or the one that is given.
        """
        return self._asleep(_seconds(f"sleep({seconds!r})", seconds), name)

    def sleep_until(self, when: datetime, *, name: str | None = None) -> Awaitable[None]:
        """Do the same up to a time with a time zone."""
        if when.utcoffset() is None:
            raise StepError(f"sleep_until({when!r}): expected a datetime with a time zone, such as datetime.now(UTC)")
        return self._asleep(when.astimezone(UTC), name)

    def _asleep(self, up_to: float | datetime, name: str | None) -> Awaitable[None]:
        job: Any = self
        attempt = attempt_of(job)
        named = name if name is not None else f"after {attempt.last}" if attempt.last else "at the start"
        run = Run(job, f"sleep {named!r} of job {job.id}")
        attempt.come_to(SLEEP, named)
        if in_loop():
            return run.slept_async(named, up_to)
        run.slept(named, up_to)
        return DONE

    @overload
    def wait_for(self, name: str, *, timeout: float | timedelta | None = None) -> Signal[Any]: ...
    @overload
    def wait_for(self, name: str, type_: type[T], *, timeout: float | timedelta | None = None) -> Signal[T]: ...
    def wait_for(self, name: str, type_: Any = values.PLAIN, *, timeout: float | timedelta | None = None) -> Signal[Any]:
        """Return the signal of that name, which `client.signal(job_id, name, value)` sends; until then the job is parked.

        `wait_for("approved", Decision).value` is its value, in its type. After the timeout the signal is false, for good. In an
        event loop: `await job.wait_for("approved")`.
        """
        wait = None if timeout is None else _seconds(f"wait_for({name!r}, timeout={timeout!r})", timeout)
        job: Any = self
        run = Run(job, f"signal {name!r} of job {job.id}")
        run.attempt.come_to("wait", name)
        signal: Signal[Any] = Signal(name)
        if in_loop():
            return signal.looked_up_by(run.came_async(signal, type_, wait))
        run.came(signal, type_, wait)
        return signal


class Run:
    """One step in one attempt."""

    def __init__(self, job: Any, what: str) -> None:
        self.job = job
        self.what = what
        self.attempt: Attempt = attempt_of(job)
        self.ways: Ways = _ways_of(job)
        if job.outcome is not None and self.attempt.over is None:
            raise StepError(f"{what}: the job has ended in its transaction, and a step behind its end would not be done again")

    def done(self, name: str, call: Callable[[], Any], type_: Any) -> Any:
        """Give the value of a step back, and run it first if it was not."""
        found = self.ways.run(self.attempt.recall(STEP, name))
        if found is None:
            self.check()
            with self.attempt.within(name):
                began = time.monotonic()
                value = call()
            text, took = values.written(self.what, value), time.monotonic() - began
            self.ours(self.ways.run(self.attempt.note(STEP, name, output=text, took=took)))
            found = Found(None, text)
        return values.read(self.what, found.output or "null", type_)

    async def done_async(self, name: str, call: Callable[[], Any], type_: Any) -> Any:
        """Do the same in an event loop."""
        found = await self.ways.run_async(self.attempt.recall(STEP, name))
        if found is None:
            self.check()
            with self.attempt.within(name):
                began = time.monotonic()
                value = call()
                if isinstance(value, Awaitable):
                    value = await value
            text, took = values.written(self.what, value), time.monotonic() - began
            self.ours(await self.ways.run_async(self.attempt.note(STEP, name, output=text, took=took)))
            found = Found(None, text)
        return values.read(self.what, found.output or "null", type_)

    def positioned(self, cursor: Cursor[Any]) -> None:
        """Bring a cursor to where it was left."""
        cursor.found = self._position(cursor, self.ways.run(self.attempt.recall(CURSOR, cursor.name)), self._moved)

    async def positioned_async(self, cursor: Cursor[Any]) -> None:
        """Do the same in an event loop."""
        cursor.found = self._position(
            cursor, await self.ways.run_async(self.attempt.recall(CURSOR, cursor.name)), self._moved_async
        )

    def _position(self, cursor: Cursor[Any], found: Found | None, move: Callable[..., Any]) -> tuple[Any]:
        self.check()
        cursor.move = move
        if found is None:
            return (cursor.start,)
        return (values.read(self.what, found.output or "null", values.like(cursor.start)),)

    def _moved(self, cursor: Cursor[Any], to: Any) -> Awaitable[None]:
        self.attempt.check_over()
        self.ours(self.ways.run(self.attempt.note(CURSOR, cursor.name, output=values.written(self.what, to))))
        cursor.found = (to,)
        self.check()
        return DONE

    async def _moved_async(self, cursor: Cursor[Any], to: Any) -> None:
        self.attempt.check_over()
        self.ours(await self.ways.run_async(self.attempt.note(CURSOR, cursor.name, output=values.written(self.what, to))))
        cursor.found = (to,)
        self.check()

    def slept(self, name: str, up_to: float | datetime) -> None:
        """Go on if the time is over, else park."""
        found = self.ways.run(self.attempt.recall(SLEEP, name))
        left = found.left if found else self.ours(self.ways.run(self.attempt.note(SLEEP, name, up_to=up_to)))
        self._park(left or 0.0)

    async def slept_async(self, name: str, up_to: float | datetime) -> None:
        """Do the same in an event loop."""
        found = await self.ways.run_async(self.attempt.recall(SLEEP, name))
        left = found.left if found else self.ours(await self.ways.run_async(self.attempt.note(SLEEP, name, up_to=up_to)))
        self._park(left or 0.0)

    def came(self, signal: Signal[Any], type_: Any, timeout: float | None) -> None:
        """Go on if the signal has come or the time is over, else park."""
        self._took(signal, type_, self.ways.run(self.attempt.look_for(signal.name, timeout)))

    async def came_async(self, signal: Signal[Any], type_: Any, timeout: float | None) -> None:  # noqa: ASYNC109 - as `came` has it
        """Do the same in an event loop."""
        self._took(signal, type_, await self.ways.run_async(self.attempt.look_for(signal.name, timeout)))

    def _took(self, signal: Signal[Any], type_: Any, look: Any) -> None:
        self.ours(Noted(look is not None, None))
        if look.late:
            signal.found = ()
        elif look.output is not None:
            signal.at = look.at
            signal.found = (values.read(self.what, look.output, type_),)
        else:
            left = math.inf if look.left is None else look.left
            self.attempt.check_over()  # another task of the job may have left meanwhile: the first one says how
            self._leave(self.ways.parked(self.job, self.what, left, signal.name, look.seen))

    def _park(self, seconds: float) -> None:
        if seconds > 0:
            self.attempt.check_over()
            self._leave(self.ways.parked(self.job, self.what, seconds))

    def check(self) -> None:
        """Hand the job back here if the process stops; not before the job's first step, for nothing is lost there."""
        if self.job.stopping and self.attempt.steps > 1:
            self._leave(self.ways.handed_back(self.job, self.what))

    def ours(self, noted: Noted) -> float | None:
        """Return the seconds up to the end of a sleep; raise JobLost if the job is no longer ours."""
        if not noted.ours:
            self.attempt.check_over()
            self._leave(self.ways.lost(self.job, self.what))
        self.allow(noted)
        return noted.left

    def allow(self, noted: Noted) -> None:
        """Take the number of attempts that the job's row allows since this record."""
        if noted.allowed is not None:
            self.job.batch.allow(self.job.row, noted.allowed)

    def _leave(self, end: BaseException | None) -> None:
        """End this run, and every further step of it. The attempt keeps no live exception: its traceback leads to the job."""
        if end is not None:
            self.attempt.over = functools.partial(type(end), *end.args)
            raise end


def _seconds(told: str, seconds: Any) -> float:
    wait = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= MAX_DELAY:
        raise StepError(f"{told}: expected seconds from 0 to {MAX_DELAY:.0f}, or a timedelta")
    return float(wait)


def in_loop() -> bool:
    """Tell whether an event loop runs in this thread."""
    import asyncio  # noqa: PLC0415 - a program that only declares workers does not load it

    return asyncio._get_running_loop() is not None  # noqa: SLF001 - get_running_loop raises where there is none


def _ways_of(job: Any) -> Ways:
    """Return the way to the records of a job; one that was made by hand may have them in memory."""
    ways = through.ways()
    if ways is not None:
        return ways
    if job.batch.claim:
        through.refuse()
    attempt = attempt_of(job)
    if attempt.memory is None:
        attempt.memory = Remembered()
    memory: Ways = attempt.memory
    return memory
