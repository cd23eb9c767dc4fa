"""The places of a host: start a worker process in each, and another one where a process has ended or gives its place up.

The supervisor's main thread does this, and alone writes the places and the children in them; `working` may be read, and
`everybody` and `first` be asked, by any thread of the supervisor (the listener's and the registrar's do).

A child that dies: its jobs go to the recovery at once (milliseconds, not a time to live), and a new child with a new number
takes its place; after a crash within YOUNG seconds with a growing pause, and not at all when it could not even start.

A child that recycles leaves its desk and keeps its other jobs, which may take hours: its successor starts at once, at the
place's second desk. A child with singletons that was silent for longer than their leases last is succeeded at once, too, and
recycles as soon as it ticks again. Should the successor recycle too, the first is told to stop, since a place has two desks: so
a host never has more than twice its processes, and is never without one that claims for longer than a stop takes.

An exit code is believed only together with the child's note on its desk: a job may end its process with any code.
"""

from __future__ import annotations

import logging
import selectors
import time
from typing import TYPE_CHECKING

from fastq.backoff import Backoff
from fastq.board import board
from fastq.events import emit
from fastq.host.children import Child, ChildState
from fastq.work.seat import BOOT_FAILED, BROKEN, RECYCLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.host.fork_server import ForkServer
    from fastq.host.registrar import Registrar

YOUNG = 10.0
"""Seconds of life below which a death counts as failing to start: an import and a connection take about one."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a child that died young is replaced, doubling."""

STOP_MARGIN = 15.0
"""Seconds beyond the jobs' own time that a stopping child gets: cancelling, handing back, writing completions."""

LINGER = 1.0
"""Seconds that the second process of a place which recycles gets to end by itself, before the first one is told to stop: without
jobs the second takes milliseconds, and the jobs of the first may have hours to go."""

TOLD = 10
"""Ids in the line that reports a death: a guess at how many a person follows up."""

KILLED = -9
"""The exit code of a process that was ended by SIGKILL."""

COULD_NOT_START = "a worker process could not start"


class Places:
    """The places of a host and the children in them."""

    def __init__(
        self, config: Config, board: Board, fork_server: ForkServer, registrar: Registrar, selector: selectors.BaseSelector
    ) -> None:
        self._config = config
        self._board = board
        self._fork_server = fork_server
        self._registrar = registrar
        self._selector = selector  # the supervisor's: it hears of a death there, with the child as the key's data
        self._count = config.process_count
        self.working: Sequence[Child] = ()  # those that claim and those that are about to; replaced as a whole, for any thread
        self._children: dict[int, Child] = {}  # the same by place; `_seated` writes both
        self._leaving: dict[int, Child] = {}  # those that recycle, by place
        self._respawn_at: dict[int, float] = dict.fromkeys(range(self._count), 0.0)  # by place
        self._pauses: dict[int, Backoff] = {}  # by place, after a death at an early age
        self._closed = False

    def everybody(self) -> list[Child]:
        """Return all children: those that work and those that leave. A child that is being replaced may appear twice."""
        return [*self._children.values(), *self._leaving.values()]

    def count_at_desks(self) -> int:
        """Count the children that have come to their desks and claim."""
        return sum(child.state is ChildState.WORKING for child in self._children.values())

    def first(self) -> Child | None:
        """Return the child that works in the first place, which runs the singletons."""
        return self._children.get(0)

    def stop(self) -> None:
        """Seat nobody any more, and tell all children to stop."""
        self._closed = True
        self._respawn_at.clear()
        self.order("stop")

    def order(self, word: str) -> None:
        """Tell all children to `stop`, or to `kill` themselves."""
        for child in self.everybody():
            if child.state is not ChildState.STOPPING:
                child.enter(ChildState.STOPPING)
            child.order(word)

    def recycle(self, child: Child, now: float) -> None:
        """Have a child that is silent give its place up when it comes round; its successor is seated at once."""
        child.silent_since = now
        child.order("recycle")

    @property
    def vacant(self) -> bool:
        """Tell whether a place waits for a child."""
        return bool(self._respawn_at)

    def fill(self) -> None:
        """Fill the empty places if their pause is over."""
        now = time.monotonic()
        for place, at in list(self._respawn_at.items()):
            if now >= at:
                number = self._registrar.take_number()
                if number is None:
                    return  # the database has not answered yet
                if not self._seat(number, place, now):
                    return

    def _seat(self, number: int, place: int, now: float) -> bool:
        """Start a process in a place; False if the fork server could not, and another try is due."""
        del self._respawn_at[place]
        leaving = self._leaving.get(place)
        desk = place if leaving is None or leaving.desk != place else place + self._count
        self._board.clear(desk)
        try:
            child = self._fork_server.start(number, place, desk)
        except (OSError, EOFError) as error:
            emit("process.not_started", level=logging.WARNING, place=place + 1, error=repr(error))
            self._respawn_at[place] = now + FIRST_PAUSE
            self._registrar.recover(number, desk, 0, "was not started")
            return False
        self._seated(place, child)
        self._registrar.add(child.number, child.pid, child.desk)
        self._selector.register(child.sentinel, selectors.EVENT_READ, child)
        emit("process.started", level=logging.DEBUG, number=number, pid=child.pid, place=place + 1)
        return True

    def _seated(self, place: int, child: Child | None) -> None:
        """Note which child a place has; None: none any more."""
        if child is None:
            del self._children[place]
        else:
            self._children[place] = child
        self.working = tuple(self._children.values())

    def replace(self) -> None:
        """Give the places of children that recycle to others, one per place at a time; stop a child that has lost its number."""
        if self._closed:
            return
        now = time.monotonic()
        for child in list(self._children.values()):
            if child.number in self._registrar.lost:
                self._let_go(child, now)
            if not self._gives_place_up(child):
                continue
            child.left_at = child.left_at or now
            before = self._leaving.get(child.place)
            if before is None:
                self._leaving[child.place] = child
                self._seated(child.place, None)
                self._respawn_at[child.place] = now
            elif now - child.left_at > LINGER:
                self._let_go(before, now)

    def _gives_place_up(self, child: Child) -> bool:
        """Look at a child's desk, and note its state; tell whether its place is another process's from now on."""
        desk = self._board.desk(child.desk)
        if not desk[board.TICKED]:
            return False  # it has not come to its desk yet
        if child.state is ChildState.STARTING:
            child.enter(ChildState.WORKING)
        if desk[board.PROCESS] and child.silent_since is None:
            return False
        if child.state is ChildState.WORKING:
            child.enter(ChildState.RECYCLING)
        return True

    def _let_go(self, child: Child, now: float) -> None:
        """Have a child stop in order, in its time, unless it has been told to."""
        if child.state is not ChildState.STOPPING:
            child.enter(ChildState.STOPPING)
            child.order("stop")
            child.kill_at = now + self._config.shutdown_timeout + STOP_MARGIN

    def ended(self, child: Child) -> str | None:
        """Handle the end of a child: its jobs first, then its place. Return why the whole host must stop, if it must."""
        self._selector.unregister(child.sentinel)
        pid, code = child.pid, child.reap()
        leaving = self._leaving.get(child.place) is child
        if leaving:
            del self._leaving[child.place]
        else:
            self._seated(child.place, None)
        cause = child.killed_because or (f"signal {-code}" if code < 0 else f"exit code {code}")
        executing = self._registrar.recover(child.number, child.desk, pid, cause)
        desk = self._board.desk(child.desk)
        in_order = bool(desk[board.LEFT]) and code in (0, RECYCLED)
        if code == BOOT_FAILED and not desk[board.TICKED]:
            return COULD_NOT_START
        if self._closed:
            return None if in_order else f"a worker process ended in disorder ({cause})"
        if not in_order:
            self._tell_died(child, pid, code, executing)
        if not leaving:  # else a successor sits there, or is about to
            young = child.lived() < YOUNG and not desk[board.ENDED]  # a child that completed a job did not die of its start
            self._respawn_at[child.place] = time.monotonic() + self._pause(child.place, code, young=young and not in_order)
        return None

    def _tell_died(self, child: Child, pid: int, code: int, executing: list[int]) -> None:
        emit(
            "process.died",
            level=logging.WARNING,
            pid=pid,
            code=code,
            lived=round(child.lived(), 1),
            executing=len(executing),
            jobs=executing[:TOLD] or None,
            hint=_hint(child, self._board.desk(child.desk), code),
        )

    def _pause(self, place: int, code: int, *, young: bool) -> float:
        """Return how long a place stays empty after an end."""
        if not young:
            self._pauses.pop(place, None)
            return 0.0
        again = place in self._pauses
        pauses = self._pauses.setdefault(place, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        # No pause after a first death by signal: somebody may have killed just this child.
        return pauses.next() if again or code > 0 else 0.0


def _hint(child: Child, desk: memoryview, code: int) -> str | None:
    """Return a hint at the cause of a child's end."""
    if code == KILLED and not child.killed_because:
        return "out of memory?"
    return "a thread of fastq broke, see above" if code == BROKEN and desk[board.LEFT] else None
