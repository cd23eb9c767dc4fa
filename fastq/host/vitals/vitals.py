"""Look again and again how the host is, and keep the newest signs for whoever asks; tell the service manager of them.

The supervisor's main thread makes the `Vitals` and calls its methods; `signs` is an immutable value that it replaces as a whole,
so the thread of the port may read it at any time. Events of the supervisor are counted by the threads that emit them, one by one.

Two questions, which probes ask apart:
    alive    the main thread of the supervisor goes round. Also during an outage of the database, and while jobs end at a stop
    ready    it works: it is not about to stop, a worker process is at its desk, and the database has answered the last beats

Invariant: everything is answered from memory, so a probe never waits for the database, and an outage there fails no probe that
asks whether the host is alive: to start it anew would not help. It deliberately does not compare the version of the schema:
`fastq run` does so when it starts, and one that is at work goes on during a migration.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from fastq.board import board
from fastq.board.extent import desk_count
from fastq.events import subscribe
from fastq.host.vitals.notify import Manager
from fastq.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastq.admin.running import ProcessVitals
    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.events import Event
    from fastq.host.vitals.gauges import Gauges
    from fastq.lead.census import Counted
    from fastq.lead.maintainer import Maintainer

STALE = 10.0
"""Seconds after which the main thread counts as stuck: it goes round twice a second (TICK in supervisor.py)."""

PAUSE = 0.25
"""Seconds between two looks at most: half a tick. A look reads a word for each slot of the host, some microseconds."""


class Signs(NamedTuple):
    """How a host is, at a monotonic time."""

    at: float
    beaten_at: float | None  # monotonic time of the last beat that the database has answered; None: none yet
    stopping: bool
    working: int  # worker processes at their desks
    places: int
    executing: Mapping[str, int]  # jobs by queue, a bundle as one
    slots: Mapping[str, int]
    written: int  # outcomes that the worker processes have written since the supervisor's start
    leads: Sequence[str]  # leases
    events: Mapping[str, int]  # events of the supervisor's so far, by name
    counted: Counted | None = None  # the jobs of the whole schema, where this host leads it
    measured: Mapping[int, ProcessVitals] = MappingProxyType({})  # the figures of its processes at the last beat, by desk


class Vitals(Service):
    """The looks of one supervisor. `beaten_at` and `working` ask its other parts, and return at once."""

    def __init__(
        self,
        config: Config,
        shared: Board,
        beaten_at: Callable[[], float | None],
        working: Callable[[], int],
        maintainer: Maintainer,
        manager: Manager,
        gauges: Gauges | None = None,
    ) -> None:
        self._config = config
        self._board = shared
        self._beaten_at, self._working, self._maintainer = beaten_at, working, maintainer
        self._manager = manager
        self._gauges = gauges
        self._stopping = False
        self._written: dict[int, int] = {}  # by desk: the outcomes of the process there, at the last look
        self._before = 0  # outcomes of processes that have left
        self._events: Counter[str] = Counter()  # under the lock
        self._lock = threading.Lock()
        self._over = False  # under the lock, as the next
        self._unsubscribe: Callable[[], None] = lambda: None
        self.signs = self._look(time.monotonic())

    def start(self) -> None:
        """Begin to count events."""
        with self._lock:
            if not self._over:
                self._unsubscribe = subscribe(self._count)

    def stop(self) -> float:
        """Be ready no more; the parts before this one do not wait for that."""
        self._stopping = True
        self.signs = self.signs._replace(stopping=True)
        self._manager.stopping()
        return 0.0

    def finish(self, by: float) -> float:
        """Look no more."""
        del by
        with self._lock:
            self._over = True
            self._unsubscribe()
        self._manager.close()
        return 0.0

    def tick(self) -> None:
        """Look, if it is time to, and tell the service manager."""
        now = time.monotonic()
        if now - self.signs.at >= PAUSE:
            self.signs = self._look(now)
            self._manager.tell(self.signs, not self.not_ready(now), now)

    def not_alive(self, now: float) -> list[str]:
        """Say why the host is not alive; nothing if it is."""
        silent = now - self.signs.at
        return [f"the supervisor's main thread has not gone round for {silent:.0f} s"] if silent > STALE else []

    def not_ready(self, now: float) -> list[str]:
        """Say why the host is not ready; nothing if it is."""
        signs, reasons = self.signs, self.not_alive(now)
        if signs.stopping:
            reasons.append("the host stops")
        elif not signs.working:
            reasons.append("no worker process is at its desk")
        if signs.beaten_at is None:
            reasons.append("the database has not answered yet")
        elif now - signs.beaten_at > self._config.process_ttl:
            reasons.append(f"the database has not answered for {now - signs.beaten_at:.0f} s")
        return reasons

    def _look(self, now: float) -> Signs:
        config, queues = self._config, self._config.concurrency
        desks = range(desk_count(config))
        executing = {
            name: sum(word > 0 for desk in desks for lane in self._board.lanes(desk, number) for word in lane.slots)
            for number, name in enumerate(queues)
        }
        with self._lock:
            events = dict(self._events)
        return Signs(
            now,
            self._beaten_at(),
            self._stopping,
            self._working(),
            config.process_count,
            executing,
            {name: slots * config.process_count for name, slots in queues.items()},
            self._outcomes(),
            self._maintainer.leads(),
            events,
            self._maintainer.counts.newest,
            self._gauges.newest if self._gauges is not None else {},
        )

    def _outcomes(self) -> int:
        """Count the outcomes that were written; those of processes that have left as of the last look at their desks."""
        for place in range(desk_count(self._config)):
            before, written = self._written.get(place, 0), int(self._board.desk(place)[board.ENDED])
            if written < before:  # the desk was wiped: another process sits down at it
                self._before += before
            self._written[place] = written
        return self._before + sum(self._written.values())

    def _count(self, event: Event) -> None:
        with self._lock:
            self._events[event.name] += 1
