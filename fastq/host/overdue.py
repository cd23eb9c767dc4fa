"""Kill the children that are overdue: those that did not stop in time, and those that cannot end by themselves.

The supervisor's main thread looks, each time that it wakes up; it makes the `Overdue` and alone writes its attributes. The
children belong to places.py, which sets their `kill_at` and replaces them. This module reads their desks and `kill_at`, kills
through `Child.kill`, postpones a `kill_at` that has come, and asks places.py to recycle a child that is silent. A child is killed
when
    - the whole host is to have stopped by now, and the fork server after it if that does not help
    - this child alone was told to stop, and its time is over
    - one of its jobs holds the interpreter lock beyond its timeout: the child's own watchdog cannot run
    - it stands for singletons and has been silent for longer than their leases last, and executes no job. With a job it is told
      to recycle instead, and another child stands for the singletons

Invariant: no child is killed for a silence that was ours. After a gap between two looks (the host was frozen, say) the children
get BEYOND_GRACE to tick. It deliberately replaces nobody: places.py hears of the ends.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.work.execute.watchdog import BEYOND_GRACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.host.children import Child
    from fastq.host.places import Places

GAP = 2.0
"""Seconds between two looks that say that we were not running, and perhaps nobody else of this host (docker pause): four times
the supervisor's TICK. A child that could not tick is not stuck; it gets BEYOND_GRACE to do so."""

KILL_TIMEOUT = 0.6
"""Seconds between asking children to leave at once and SIGKILL; with LAST_WORDS (supervisor.py) the end comes within a second."""

REAP_TIMEOUT = 0.05
"""Seconds from SIGKILL to the children until the fork server gets it, which tells of their ends within milliseconds or hangs."""

LATE = "did not stop in time"


class Overdue:
    """The supervisor's looks at processes that should have ended. `kill_fork_server` does that; all children end with it."""

    def __init__(self, config: Config, board: Board, places: Places, kill_fork_server: Callable[[], None]) -> None:
        self._config = config
        self._board = board
        self._places = places
        self._kill_fork_server = kill_fork_server
        self._looked_at = self._patient_until = time.monotonic()  # for children that hold the interpreter lock
        self._all_by: float | None = None  # monotonic time at which all that is left is killed
        self._killed = False  # the children were, at `_all_by`

    def kill_all(self, after: float) -> None:
        """Kill all children that have not ended in so many seconds."""
        self._all_by = time.monotonic() + after

    def wait(self, longest: float) -> float:
        """Return the seconds until the next look is due, `longest` at most."""
        return longest if self._all_by is None else max(0.0, min(longest, self._all_by - time.monotonic()))

    def look(self, *, stopping: bool) -> None:
        """Kill overdue processes."""
        now = time.monotonic()
        if now - self._looked_at > GAP:
            self._patient_until = now + BEYOND_GRACE
        self._looked_at = now
        if self._all_by is not None and now >= self._all_by:
            self._kill_all(now)
        patient = now <= self._patient_until
        spare = int((self._config.timeout_grace + BEYOND_GRACE) * 1e9)
        for child in self._places.everybody():
            if not patient and self._board.overdue(child.desk, int(now * 1e9), spare):
                _kill(child, "a job held the interpreter lock beyond its timeout")
            elif child.kill_at is not None and now >= child.kill_at:
                _kill(child, LATE)
                child.kill_at = now + KILL_TIMEOUT
        if not patient and not stopping:
            self._replace_silent(now)

    def _kill_all(self, now: float) -> None:
        """Kill all children; the next time the fork server, too."""
        for child in self._places.everybody():
            _kill(child, LATE)
        if self._killed:
            self._kill_fork_server()
        self._killed, self._all_by = True, now + REAP_TIMEOUT

    def _replace_silent(self, now: float) -> None:
        """See to it that a process of this host stands for the singletons: one that cannot even tick has lost their leases.

        A singleton may hold the interpreter lock, or a job may, or somebody has stopped the process. Without a job nothing is
        lost by killing it, and a function must not go on once its lease is over. Jobs keep the time that they have.
        """
        config = self._config
        limit = int((config.lease_ttl + config.timeout_grace + BEYOND_GRACE) * 1e9)
        for child in self._places.working:
            if self._board.silent(child.desk, int(now * 1e9), limit):
                if not self._board.executing_at(child.desk):
                    _kill(child, "it gave no sign for longer than the leases of its singletons last")
                elif child.silent_since is None:
                    emit("process.silent", level=logging.WARNING, pid=child.pid, after=round(limit / 1e9, 1))
                    self._places.recycle(child, now)


def _kill(child: Child, reason: str) -> None:
    emit("process.killed", level=logging.WARNING, pid=child.pid, reason=reason)
    child.kill(reason)
