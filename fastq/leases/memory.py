"""The twin of `fastq.Lease` without a database, for tests of programs that hold leases.

`MemoryLease` has the methods and the behaviour of `Lease`, and belongs to one thread of a test as that does; the row is an entry
on a `LeaseBoard` in this process, which all threads may use: they read and write its rows under its lock. One test describes both
(tests/db/test_lease_twins.py).

Time is the board's: `advance` lets leases run out without waiting for it. A lease that somebody waits for is looked at again
when one is released and when time was advanced. It deliberately knows nothing of other processes, nor of fences in statements.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastq.leases.lease import Fence, boottime, check_name, check_ttl, identity, trust_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

DEFAULT_TTL = 10.0
"""Seconds: the default of FASTQ_LEASE_TTL."""

LOOK = 0.05
"""Seconds between looks of a thread that waits: the clock may be one that notifies nobody when it moves."""


@dataclass
class _Row:
    term: int = 0
    holder: str = ""
    expires_at: float = 0.0


class LeaseBoard:
    """Where leases are written down; those of one board compete with each other."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self.changed = threading.Condition()  # also the lock of the rows
        self._rows: dict[str, _Row] = {}
        self._clock = clock
        self._ahead = 0.0  # seconds by which `advance` has moved the time on; under the lock

    def now(self) -> float:
        """Return the board's time in seconds."""
        return self._clock() + self._ahead

    def advance(self, seconds: float) -> None:
        """Move time on."""
        with self.changed:
            self._ahead += seconds
            self.changed.notify_all()

    def row(self, name: str) -> _Row:
        """Return the row of a lease; to be used under the lock."""
        return self._rows.setdefault(name, _Row())


_shared = LeaseBoard()  # of all leases of this process that are given no board


class MemoryLease:
    """A lease in memory: `MemoryLease("report")` where the program has `Lease("report")`; without a board, on one for all."""

    def __init__(self, name: str, *, ttl: float = DEFAULT_TTL, board: LeaseBoard | None = None) -> None:
        self.ttl = check_ttl(ttl)
        self.name = check_name(name)
        self._board = board or _shared
        self._fence: Fence | None = None
        self._trusted_until = 0.0

    def try_acquire(self) -> bool:
        """Take the lease if it is to be had now; False as well when it is ours already (renewing is `renew`)."""
        board, name = self._board, f"user:{self.name}"
        with board.changed:
            now, row = board.now(), board.row(name)
            if row.holder and row.expires_at >= now:
                return False
            row.term, row.holder, row.expires_at = row.term + 1, identity(), now + self.ttl
            self._fence, self._trusted_until = Fence(name, row.holder, row.term), trust_of(now, self.ttl)
        return True

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for the lease; False if it was not to be had within `timeout` seconds."""
        board = self._board
        give_up = None if timeout is None else board.now() + timeout
        with board.changed:
            while not self.try_acquire():
                if give_up is not None and board.now() >= give_up:
                    return False
                board.changed.wait(LOOK if give_up is None else max(0.0, min(LOOK, give_up - board.now())))
        return True

    def renew(self) -> bool:
        """Prolong the lease; False when it is not ours any more: stop acting now."""
        board, fence = self._board, self._fence
        if fence is None:
            return False
        with board.changed:
            now, row = board.now(), board.row(fence.name)
            if now >= self._trusted_until or (row.holder, row.term) != (fence.holder, fence.term) or row.expires_at < now:
                self._fence, self._trusted_until = None, 0.0
                return False
            row.expires_at, self._trusted_until = now + self.ttl, trust_of(now, self.ttl)
        return True

    def release(self) -> bool:
        """Free the lease at once; False if it was not ours any more."""
        board, fence = self._board, self._fence
        self._fence, self._trusted_until = None, 0.0
        if fence is None:
            return False
        with board.changed:
            row = board.row(fence.name)
            if (row.holder, row.term) != (fence.holder, fence.term):
                return False
            row.holder = ""
            board.changed.notify_all()
        return True

    def trusted(self) -> bool:
        """Tell whether we may still act as the holder; may be asked by any thread."""
        return self._board.now() < self._trusted_until

    @property
    def term(self) -> int | None:
        """Return the term that we hold the lease in; None when we do not."""
        return self._fence.term if self._fence is not None and self.trusted() else None

    @property
    def fence(self) -> Fence | None:
        """Return the fence for statements that shall do nothing once the term is over; None if the lease is not held."""
        return self._fence

    def close(self) -> None:
        """Release."""
        self.release()

    def __enter__(self) -> Self:
        """Wait until we hold it."""
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Free it."""
        self.close()
