"""The supervisor's view of a worker process: its state, the pipes by which it is told something, its end.

Used by the supervisor's main thread; `wake` and `hint` also by its listener, `tell` also by its registrar. The children belong to
places.py, which keeps them. It deliberately starts nothing (fork_server.py does) and decides nothing: which child is told to end,
and when, is up to places.py and overdue.py.
"""

from __future__ import annotations

import enum
import os
import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastq.work.claim.rota import ALL, encode

if TYPE_CHECKING:
    from fastq.work.seat import Seat


class ChildState(enum.Enum):
    """The state of a child, as its supervisor knows it."""

    STARTING = "starting"
    WORKING = "working"
    RECYCLING = "recycling"
    STOPPING = "stopping"
    ENDED = "ended"


ARROWS = {
    (ChildState.STARTING, ChildState.WORKING): "it has come to its desk: its main thread ticks",
    (
        ChildState.WORKING,
        ChildState.RECYCLING,
    ): "it has left its desk, or was silent for longer than the leases of its singletons last",
    (ChildState.STARTING, ChildState.STOPPING): "the host stops",
    (ChildState.WORKING, ChildState.STOPPING): "the host stops, or the child's number was given out twice",
    (ChildState.RECYCLING, ChildState.STOPPING): "the host stops, or its successor recycles too and needs its desk",
    (ChildState.STARTING, ChildState.ENDED): "it could not start, or was killed",
    (ChildState.WORKING, ChildState.ENDED): "it crashed or was killed",
    (ChildState.RECYCLING, ChildState.ENDED): "its jobs have ended, or it crashed or was killed",
    (ChildState.STOPPING, ChildState.ENDED): "it has stopped, or was killed since it had not in time",
}
"""All transitions, each with its cause. A child that recycles may give its place up later; that is no state of its own."""


class Child:
    """One worker process as its supervisor sees it. The supervisor's main thread alone writes its attributes."""

    def __init__(self, process: Any, seat: Seat, control: int, wake: int) -> None:
        self.number = seat.number
        self.place = seat.place
        self.desk = seat.desk
        self.state = ChildState.STARTING
        self.started_at = time.monotonic()
        self.left_at: float | None = None  # monotonic time at which places.py first saw that it had given its place up
        self.silent_since: float | None = None  # monotonic time at which places.py told it to give its place up
        self.kill_at: float | None = None  # monotonic time; set by places.py when this child alone is told to stop
        self.killed_because = ""
        self._process = process
        self._control = control
        self._wake = wake
        self._order = ""  # that has not gone yet
        self._closed = False  # under the lock: another thread must not write to a number that is somebody else's by now
        self._lock = threading.Lock()

    def enter(self, state: ChildState) -> None:
        """Go over to a state."""
        assert (self.state, state) in ARROWS, f"a child goes from {self.state.value} to {state.value} by no arrow"
        self.state = state

    def lived(self) -> float:
        """Return the seconds since its start."""
        return time.monotonic() - self.started_at

    @property
    def pid(self) -> int:
        """Return the pid of the child."""
        return int(self._process.pid)

    @property
    def sentinel(self) -> int:
        """Return a descriptor that becomes readable when the child has ended."""
        return int(self._process.sentinel)

    def wake(self, queue: int = ALL) -> None:
        """Make its producer look at a queue."""
        with self._lock, suppress(OSError):  # full of wake-ups, or the child has ended
            if not self._closed:
                os.write(self._wake, encode(queue))

    def tell(self, line: str) -> bool:
        """Send a line to its main thread if its pipe has room; tell whether nothing is left to do. Any thread may call this.

        It never waits, so that a child that is deaf holds up nobody. A line goes whole or not at all.
        """
        data = line.encode() + b"\n"
        if len(data) > select.PIPE_BUF:
            return False
        with self._lock:
            if self._closed:
                return True
            try:
                os.write(self._control, data)
            except BlockingIOError:
                return False
            except OSError:
                return True  # it has ended; its sentinel tells
        return True

    def hint(self, line: str) -> None:
        """Send a line that may as well be lost: anybody may cause any number of them."""
        self.tell(line)

    def order(self, word: str) -> None:
        """Tell it to `stop`, `recycle` or `kill` itself; without room now, `remind` does. The main thread alone calls these."""
        self._order = word
        self.remind()

    def remind(self) -> None:
        """Send the last order if it has not gone yet."""
        if self._order and self.tell(self._order):
            self._order = ""

    def kill(self, reason: str) -> None:
        """End it at once, for this reason. Its pid is ours until it was reaped, so nobody else can be hit."""
        self.killed_because = reason
        if self._process.is_alive():
            self._process.kill()

    def reap(self) -> int:
        """Collect the exit code after its end and close our ends of its pipes."""
        self.enter(ChildState.ENDED)
        self._process.join(1.0)
        code = self._process.exitcode
        with self._lock:
            self._closed = True
            for fd in (self._control, self._wake):
                os.close(fd)
        self._process.close()
        return -9 if code is None else int(code)
