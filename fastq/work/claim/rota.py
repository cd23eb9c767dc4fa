"""Which queue a producer looks at next, where it works several: a queue that calls or whose time has come, and no other.

Used and written by the producer's thread of a worker process alone; the main thread makes it. The calls come through the
producer's pipe, four bytes each, with the number of a queue: by the supervisor (a hint), by executors (the inbox runs low or is
empty). So a round costs the same with a thousand queues that have nothing as with none.

    own      its executors call, and it has had less than a batch since its turn began: it goes on, with the larger claims for
             which its pace calls by now, rather than have all queues begin with claims of a job or two
    hinted   the supervisor calls: mostly a job has come to a queue that was idle
    due      its time has come, in this order: there was more to claim, a re-scan was put off, a poll as a net

Own calls come first. One in four visits is a hinted queue's if there is any, so that its job does not wait for the backlogs of
others, and one in sixteen a due one's. A hinted queue that another process of the host is just claiming from is put behind.

Once a poll, and when hints may have been missed, all queues are looked at together: by a peek, if no other process of the host
has made one (work/cursor/peeks.py), and by the words on the board, which show the calls of other processes. Each call may be
lost but for that: the net of docs/adr/0014.

The room in the ring of ids is shared, too: a queue takes half of the room, and the next ones find the other half. It deliberately
claims nothing, and knows no pace: demand.py does.
"""

from __future__ import annotations

import math
import struct
import time
from collections import deque
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fastq.work.cursor.peeks import Peeks
from fastq.work.shared.lane import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.work.claim.sources import Source

ALL, ROOM = -1, -2
"""In place of a queue's number: all queues are called; those are that waited for room in the ring."""

FULL = 4_096
"""Bytes in a pipe from which on some calls may have found no room: the smallest that the kernel gives a pipe."""

LEAST = 10
"""A claim has room for this part of a batch at least, if completions go on: 500 jobs; the fixed cost of a claim adds a
third to theirs. Else, where the completer is the slowest, a hundred queues would share each batch that it writes."""

PATIENCE = 0.1
"""Seconds without a batch written after which a claim takes any room: jobs that run for long may hold the rest. A guess."""

GOLDEN = 0.618034
"""Multiples of the golden ratio lie apart: processes begin their rounds at different queues, so that they seldom meet in one."""

_CALL = struct.Struct("=i")

encode: Callable[[int], bytes] = _CALL.pack
"""Return a call as it goes through the pipe, given the number of a queue: whole or not at all."""

HINTED_EVERY, DUE_EVERY = 4, 16
"""Visits of which one is a hinted, and a due queue's. A visit takes 1 to 5 ms. Guesses: a job that comes to an idle queue waits
for three visits at most, and four claims bring a queue of quick jobs from one job to a thousand."""

NEAR = int(0.05e9)
"""ns since another process claimed from a queue with backlog for which it is taken to go on there: some claims take as long."""

_AT_REST, _DUE, _HINTED, _OWN = range(4)
_ORDER = (_OWN, _HINTED, _DUE)


def rota_of(sources: Sequence[Source], board: Board, config: Config, process: int) -> Rota | None:
    """Make the rota of the queues of a process, by its number; None where it has but one."""
    if len(sources) == 1:
        return None
    peeks = Peeks(board, [one.cursor for one in sources], config.poll_interval, sources[0].waiting.interval)
    return Rota(sources, peeks, config, process)


class Rota:
    """The order of one producer's queues."""

    def __init__(self, sources: Sequence[Source], peeks: Peeks, config: Config, process: int) -> None:
        self._sources = sources
        self._first = int(process * GOLDEN % 1.0 * len(sources))  # where this process begins, when all are called
        self.peeks = peeks
        self._poll = config.poll_interval
        self._least = max(1, config.batch // LEAST)
        self._scan_at = 0.0  # monotonic time of the next look at all queues together
        self._process = process
        self._states = [_AT_REST] * len(sources)
        self._lists: tuple[deque[int], ...] = tuple(deque() for _ in range(4))  # by state; a queue may have gone over to another
        self._visits = 0
        self._batch = config.batch
        self._began = [0] * len(sources)  # jobs that were claimed from a queue before its present turn
        self._timers: list[tuple[float, int]] = []  # a heap of monotonic times with queues; only the one in `_at` counts
        self._at = [math.inf] * len(sources)
        self._roomless: dict[int, None] = {}  # queues that wait for room, in the order in which they came
        self._short_since = 0.0  # monotonic time from which on there is hardly any; 0: there is

    def hear(self, calls: bytes) -> None:
        """Take in the calls that came through the pipe."""
        if len(calls) >= FULL:
            self.call_all()
        for (queue,) in _CALL.iter_unpack(calls[: len(calls) // _CALL.size * _CALL.size]):
            if queue >= OWN:
                self._go_on(queue - OWN)
            elif queue >= 0:
                self._list(queue, _HINTED)
            elif queue == ROOM:
                self._make_room()
            else:
                self.call_all()

    def call_all(self) -> None:
        """Have each queue come up, and all be looked at together before."""
        self._scan_at = 0.0
        for queue in range(self._first, self._first + len(self._sources)):
            self._list(queue % len(self._sources), _DUE)

    def distrust(self) -> None:
        """Have each queue come up, and nothing be believed: the connection was lost."""
        self.peeks.distrust()
        self.call_all()

    def scan(self, connection: Connection) -> None:
        """Look at all queues together, if it is time: peek, if no other process has, and take up those with something to do."""
        if time.monotonic() < self._scan_at:
            return
        peeks = self.peeks
        if peeks.due() and peeks.try_turn():
            try:
                if peeks.due():  # no other process has just peeked
                    peeks.send(connection)
            finally:
                peeks.end_turn()
        self.take_up()

    def take_up(self) -> None:
        """Take up the queues that have something to do, by the words on the board."""
        self._scan_at = time.monotonic() + self._poll
        for queue, source in enumerate(self._sources):
            if source.cursor.due() or source.waits():
                self._fall_due(queue)

    def next(self) -> Source | None:
        """Return the queue that is looked at next; None if none calls and none is due."""
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            at, queue = heappop(self._timers)
            if self._at[queue] == at:
                self._fall_due(queue)
        self._visits += 1
        for state in self._order():
            queues = self._lists[state]
            while queues:
                queue = queues.popleft()
                source = self._sources[queue]
                if self._states[queue] != state:
                    continue
                self._states[queue] = _AT_REST
                if state == _HINTED and self._lists[_DUE] and self._is_anothers(source):
                    self._list(queue, _DUE)
                    continue
                if state != _OWN:
                    self._began[queue] = source.feed.claimed
                return source
        return None

    def _order(self) -> Sequence[int]:
        if self._visits % DUE_EVERY == 0:
            return _ORDER[::-1]
        return (_HINTED, _OWN, _DUE) if self._visits % HINTED_EVERY == 0 else _ORDER

    def _is_anothers(self, source: Source) -> bool:
        """Tell whether another process of the host is just claiming from a queue."""
        words = source.cursor.words
        return bool(words.backlog) and words.holder != self._process and time.monotonic_ns() - words.looked_at < NEAR

    def put(self, source: Source, seconds: float) -> None:
        """Have a queue come up again after so many seconds, unless it is called before."""
        queue = source.feed.number
        if seconds <= 0.0:
            self._fall_due(queue)
        elif seconds < self._poll * 1e3:
            self._at[queue] = at = time.monotonic() + seconds
            heappush(self._timers, (at, queue))
        else:
            self._at[queue] = math.inf

    def rest(self) -> float:
        """Return the seconds until one is due, if none calls."""
        at = min(self._scan_at, self._timers[0][0]) if self._timers else self._scan_at
        return max(0.0, at - time.monotonic())

    def share(self, room: int) -> int:
        """Return for how many jobs one queue may claim, of the room that there is for all."""
        if room >= self._least:
            self._short_since = 0.0
            return max(self._least, room // 2)
        now = time.monotonic()
        self._short_since = self._short_since or now
        return max(0, room) if now - self._short_since >= PATIENCE else 0

    def await_room(self, source: Source, wake: Callable[[int], None]) -> Callable[[], None]:
        """Note that a queue waits for room; return the call that tells of it."""
        self._roomless[source.feed.number] = None
        return partial(wake, ROOM)

    def _make_room(self) -> None:
        self._short_since = 0.0
        for queue in self._roomless:
            self._fall_due(queue)
        self._roomless.clear()

    def _list(self, queue: int, state: int) -> None:
        """Have a queue come up, unless it does so sooner already."""
        if self._states[queue] < state:
            self._states[queue] = state
            self._lists[state].append(queue)

    def _go_on(self, queue: int) -> None:
        """Have a queue go on with its turn, or wait for its next."""
        goes_on = self._sources[queue].feed.claimed - self._began[queue] < self._batch
        self._list(queue, _OWN if goes_on else _DUE)

    def _fall_due(self, queue: int) -> None:
        self._at[queue] = math.inf
        self._list(queue, _DUE)
