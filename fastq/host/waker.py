"""Choose the process that looks at the database after a notification: one of this host, and all where one was not enough.

The supervisor's main thread makes a `Waker` before the threads start; from then on the listener's thread alone calls it and
writes its questions (`_asked`) and the numbers of hints on the board. The children are places.py's. Each process that wakes takes
a core for some hundred microseconds, and on a host with few cores the job waits for them. So a hint wakes the process with most
executors at rest: its job starts at once, and jobs that come one by one spread over the processes. SECOND_LOOK later the board
tells whether the queue has been looked at since, and nothing was left. If not (it was more than one process has room for, or that
one is frozen, or slow), all are woken.

A process without room needs no hint: its executors call its producer when they run dry. Where processes work several queues, the
call names the queue, and hints that were missed are answered by one look at all queues at once (work/cursor/peeks.py). This knows
neither the database nor the jobs; a hint that it forgets costs a poll.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.board import board
from fastq.postgres import hints
from fastq.work.claim.rota import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastq.board.board import Board
    from fastq.host.children import Child
    from fastq.host.places import Places
    from fastq.postgres.hints import Hint

SECOND_LOOK = 0.003
"""Seconds from a hint until all are woken if it has come to nothing. A look takes 0.5 to 1.5 ms, most of it the disk's; a burst
that is too much for one process waits so long for the others."""


class Waker:
    """Wakes the producers of a host."""

    def __init__(self, board_: Board, queues: Sequence[str], desks: int, places: Places) -> None:
        self._places = places
        self._queues = {name: number for number, name in enumerate(queues)}
        self._cursors = [board_.cursor(number) for number in range(len(queues))]
        self._missed = [board_.peeks()] if len(queues) > 1 else self._cursors  # whose words tell of hints that were missed
        self._desks = [board_.desk(desk) for desk in range(desks)]
        self._slots = [
            [[lane.slots for lane in board_.lanes(desk, queue)] for queue in range(len(queues))] for desk in range(desks)
        ]
        self._at_rest = [bytes(8 * slots) for slots in board_.concurrency]
        self._concurrency = board_.concurrency
        self._asked: dict[int, tuple[float, int]] = {}  # by queue: when to look whether one was enough, and for which of `wakes`

    def hears(self) -> Mapping[Hint, Callable[[str], None]]:
        """Name the hints upon which producers look at the database."""
        return {
            hints.MISSED: lambda _: self.wake_all(),
            hints.QUEUE: self.wake_one,
            hints.PAUSE: lambda _: self.wake_paused(),
            hints.WAITING: lambda queue: self.wake_one(queue, waiting=True),
        }

    def wake_all(self) -> None:
        """Make all producers look at all queues: nobody knows which hints were missed."""
        for words in self._missed:
            words.wakes += 1
            words.waiting_hints += 1
        self.wake_paused()

    def wake_paused(self) -> None:
        """Make all producers ask which kinds are paused."""
        for words in self._cursors:
            words.pause_hints += 1
        self._everybody()

    def wake_one(self, name: str, *, waiting: bool = False) -> None:
        """Make a producer look at a queue; all of them where none is known to have room. A queue of others is theirs.

        `waiting` says for which jobs: for those that wait for a worker, or for those that are available.
        """
        queue = self._queues.get(name)
        if queue is None:
            return
        words = self._cursors[queue]
        if waiting:
            words.waiting_hints += 1
        else:
            words.wakes += 1
        children = self._places.working
        room = [self._room(child, queue) for child in children]
        most = max(room, default=0)
        if most <= 0:
            self._everybody(queue)
            return
        children[room.index(most)].wake(queue)
        if len(children) > 1:
            self._asked.setdefault(queue, (time.monotonic() + SECOND_LOOK, words.wakes))

    def look(self) -> float | None:
        """Wake all where one was not enough; return the seconds until this is to be called again, None: after the next hint."""
        now = time.monotonic()
        for queue, (due, wakes) in list(self._asked.items()):
            if due > now:
                continue
            del self._asked[queue]
            words = self._cursors[queue]
            unseen = words.waiting_seen != words.waiting_hints
            if unseen or words.backlog or words.drained < wakes:
                self._everybody(queue)
            elif words.drained != words.wakes:  # another hint came meanwhile
                self._asked[queue] = (now + SECOND_LOOK, words.wakes)
        return max(0.0, min(due for due, _ in self._asked.values()) - now) if self._asked else None

    def _everybody(self, queue: int = ALL) -> None:
        for child in self._places.everybody():
            child.wake(queue)

    def _room(self, child: Child, queue: int) -> int:
        """Count the jobs of a queue that a process can start now, in all its lanes; none before its producer is connected."""
        if not self._desks[child.desk][board.SESSIONS[0]]:
            return 0
        at_rest = self._at_rest[queue]
        # A lane at rest, like that of the mode which an app does not have, costs a tenth of one with jobs to count.
        used = [slots for slots in self._slots[child.desk][queue] if slots.tobytes() != at_rest]
        return self._concurrency[queue] - sum(len(slots) - slots.tolist().count(0) for slots in used)
