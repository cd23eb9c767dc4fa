"""Work the jobs of a database one after the other, until none is left or one was worked: the loop of `drain` and `work_one`.

Made for one call, in the thread of a test. It takes the queue of the job that comes first by priority and number, has the
workplace of that queue make a turn, and leads (leading.py) when no job is available. With `until` it then moves the clock to the
next time for which a job waits.

Invariant: jobs come due at the beginning of the call, or by a move of the clock, and at no other moment: how fast the machine is
decides nothing. It deliberately does not wait: for no time, no person and no other process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.args.versions.names import names_of
from fastq.sql.statements import in_schema
from fastq.testing.leading import HandGatekeeper, Leading, due_after
from fastq.testing.workplace import Workplace

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Generator
    from datetime import datetime

    from fastq.config import Config
    from fastq.jobs.registry import Registry
    from fastq.postgres.db import Connection
    from fastq.testing.clock import Clock
    from fastq.testing.ran import Ran

NEXT = """\
(select queue from fastq.job where state = 'available' and seq is not null and queue <> all ($1::text[])
    order by priority, seq limit 1)
union all
(select queue from fastq.job where state = 'waiting' and waits_for = any ($2::text[]) and queue <> all ($1::text[]) limit 1)
limit 1"""

NUMBERS = 64
"""Process numbers that one statement takes; each workplace has one of its own, so that no claim is named twice."""


class Own:
    """The things that the calls of one test share: process numbers, taken as a supervisor takes them, and the gatekeeper."""

    def __init__(self) -> None:
        self.gatekeeper = HandGatekeeper()
        self._left: list[int] = []

    def take_number(self, connection: Connection) -> int:
        """Take a process number."""
        while not self._left:
            first, used = connection.run_one("process_take_numbers")
            if not used:
                self._left = list(range(first, first + NUMBERS))
        return self._left.pop()


class Working:
    """One call; `results` has what ran so far."""

    def __init__(
        self,
        connection: Connection,
        config: Config,
        registry: Registry,
        own: Own,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.results: list[Ran] = []
        self._connection = connection
        self._registry = registry
        self._asked = [f"worker:{name}" for name in names_of(registry.workers)]
        self._leading = Leading(connection, config, own.gatekeeper)
        self._places: dict[str, Workplace] = {}
        self._passed_by: set[str] = set()  # queues in which nothing could be claimed: paused ones
        self._make: Callable[[str], Workplace] = lambda queue: Workplace(
            queue, connection, config, registry, own.take_number(connection), loop
        )

    def run(
        self, *, once: bool, limit: int, raising: bool, clock: Clock | None = None, until: datetime | None = None
    ) -> Generator[Coroutine[Any, Any, None], None, None]:
        """Work; the coroutines that it gives are to be awaited on the event loop, each before the next."""
        try:
            self._leading.lead(promotes=True)
            while (queue := self._next()) is not None or self._goes_on(clock, until):
                if queue is None:
                    continue
                place = self._places.get(queue) or self._places.setdefault(queue, self._make(queue))
                yield from place.turn(once=once)
                if not place.results:
                    self._passed_by.add(queue)
                    continue
                self._take(place, raising=raising)
                if once:
                    return
                if len(self.results) >= limit:
                    raise AssertionError(_endless(self.results, limit))
        finally:
            for place in self._places.values():
                place.close()

    def _next(self) -> str | None:
        """Return the queue of the next job; None if no job is available."""
        text = in_schema(NEXT, self._connection.schema)
        rows = self._connection.ask(text, list(self._passed_by), self._asked)
        return str(rows[0][0]) if rows else None

    def _goes_on(self, clock: Clock | None, until: datetime | None) -> bool:
        """Lead, or move the clock; tell whether jobs may be available since then."""
        if self._leading.lead(promotes=False):
            self._passed_by.clear()
            return True
        due = due_after(self._connection) if clock is not None else None
        if clock is None or due is None or until is None or due > until:
            return False
        clock.stand(max(due, clock.now))
        return self._leading.lead(promotes=True) > 0

    def _take(self, place: Workplace, *, raising: bool) -> None:
        """Keep the results of a turn; raise the exception of an attempt that failed."""
        self.results += [result for result, _ in place.results]
        failures = [failure for _, failure in place.results if failure is not None]
        wanted = failures if raising else [failure for failure in failures if not isinstance(failure, Exception)]
        if wanted:
            raise wanted[0]


def _endless(results: list[Ran], limit: int) -> str:
    last = "\n".join(f"  {result}" for result in results[-3:])
    return f"{limit} attempts have been made and there is still more to do; the last of them:\n{last}\ngive a higher limit="
