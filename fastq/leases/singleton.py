"""The handle that a singleton's function is given: its term, whether it is to end, and a guard for its effects on the world.

Used in a worker process, by the function's thread, its event loop and any threads that it starts itself; made by singletons.py in
the elector's thread, one for each term, and never used for another. It is told to end by the elector's thread (lost, resign), by
the main thread (stop), by the function's own thread when the function has raised (failed), or by any thread that finds its trust
over. Its `Session` is made by the main thread, one for each singleton, and closed at the end of each term. A `Notice` and a
`Session` write their state under their locks, in whichever thread calls.

Invariants:
- `stopping` is true from the moment that the lease may be somebody else's, without anybody having to run: it asks the clock.
- `once` says yes to an item one time in the whole cluster, also when two holders act at once: that is a unique key, no lock.
- A holder is refused by the database once its term is over, even if it does not know.

It deliberately holds no lock on the lease while the function's own transaction is open, and keeps no connection that nobody uses.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from fastq.adapters import drivers, drivers_async
from fastq.errors import DatabaseUnavailable, LeaseLost, OptionError
from fastq.leases.lease import boottime
from fastq.postgres import db
from fastq.postgres.kept import Kept
from fastq.sql.statements import qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.adapters.conn import AsyncConn, Conn
    from fastq.adapters.library import Rows
    from fastq.config import Config
    from fastq.leases.elector import Trust
    from fastq.leases.lease import Fence

MAX_ITEM = 512
"""Bytes of an item's name; the table allows as many."""


class SingletonStopped(BaseException):
    """Raised *into* a singleton's function that did not return in time when it was told to; `finally` and `with` run as usual."""


class Notice:
    """That a term's run is to end, and why: given once, by anybody; read and waited for by all."""

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self.reason = ""  # '' until it is given
        self.at = 0.0  # boottime of that
        self._given = threading.Event()
        self._listeners: list[Callable[[], object]] = []  # added and removed by waiting event loops, under the lock
        self._lock = threading.Lock()

    def give(self, reason: str) -> None:
        """Give it, for the first reason that comes, and wake the threads that wait."""
        with self._lock:
            if self.reason:
                return
            self.at, self.reason = boottime(), reason
            listeners = list(self._listeners)
        self._given.set()
        for listener in listeners:
            with contextlib.suppress(RuntimeError):  # its loop has just been closed
                listener()

    def given(self) -> bool:
        """Tell whether the run is to end; a trust that is over is a notice too."""
        if not self.reason and not self.trust.holds():
            self.give("lost")
        return bool(self.reason)

    def naps(self, seconds: float) -> Iterator[float]:
        """Yield how long to sleep next, until the notice is given or the time is over; the trust may end before either."""
        until = boottime() + seconds
        while not self.given() and (left := until - boottime()) > 0:
            yield min(left, self.trust.left())

    def wait(self, seconds: float) -> bool:
        """Sleep, until it is given at most."""
        for nap in self.naps(seconds):
            self._given.wait(nap)
        return self.given()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have a function called when it is given, from another thread."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


class Session:
    """The connection of `once` where the function gives none: opened when it is first needed, closed at the end of the run."""

    def __init__(self, config: Config, url: str) -> None:
        self.schema = config.schema
        self.kept = Kept(lambda: db.session(config, url, "once"))
        self._lock = threading.Lock()  # a function may have threads of its own

    def run(self, name: str, *params: object) -> Rows:
        """Run a statement in a transaction of its own. One that failed may have taken effect; it is not tried again."""
        with self._lock:
            try:
                return self.kept.open().run(name, *params)
            except BaseException as error:  # also one that is thrown into the thread in the middle of it
                self.kept.drop()
                if isinstance(error, db.Error | DatabaseUnavailable):
                    raise DatabaseUnavailable(f"{name}: {db.first_line(error)}") from error
                raise

    def close(self) -> None:
        """Close it if it is open."""
        with self._lock:
            self.kept.drop()


class Singleton:
    """One term of a singleton, for the function that runs in it. May be used by any thread of the process.

    `stopping` says to return soon, `wait` sleeps until then at most, `trusted` tells whether nobody else can hold the lease,
    `once` guards effects that must not happen twice; `wait_async` and `once_async` are for event loops. `name`, `term` and
    `fence` say which it is.
    """

    def __init__(self, name: str, fence: Fence, notice: Notice, session: Session) -> None:
        self.name = name
        self.fence = fence
        self._notice = notice
        self._session = session

    @property
    def term(self) -> int:
        """Give the number of the term: the next holder's is higher."""
        return self.fence.term

    @property
    def stopping(self) -> bool:
        """Tell whether to return soon: the process stops, or the lease is lost or was given up."""
        return self._notice.given()

    def trusted(self) -> bool:
        """Tell whether nobody else can hold the lease now; true too while a stopping process waits for us. No statement."""
        return self._notice.trust.holds()

    def wait(self, seconds: float) -> bool:
        """Sleep, and wake up early if it is time to return; True when it is."""
        return self._notice.wait(seconds)

    async def wait_async(self, seconds: float) -> bool:
        """Do as `wait` does, in an event loop."""
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        with self._notice.listening(lambda: loop.call_soon_threadsafe(told.set)):
            for nap in self._notice.naps(seconds):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(told.wait(), nap)
        return self.stopping

    def once(self, item: str, conn: Conn | None = None) -> bool:
        """Return True the first time that anybody asks for this item, and False from then on.

        With `conn`, a connection or session with an open transaction, it counts when that commits. Without, it counts at once.
        Once the holder's term is over, it raises LeaseLost.
        """
        self._check(item)
        if conn is None:
            return self._answer(self._session.run("once", *self.fence, item))
        return self._answer(drivers.run(conn, qualified("once", self._session.schema), (*self.fence, item)))

    async def once_async(self, item: str, conn: AsyncConn | None = None) -> bool:
        """Do as `once` does, in an event loop, on an asynchronous connection or session."""
        if conn is None:
            return await asyncio.to_thread(self.once, item)
        self._check(item)
        return self._answer(await drivers_async.run(conn, qualified("once", self._session.schema), (*self.fence, item)))

    def __repr__(self) -> str:
        """Show name and term."""
        return f"Singleton({self.name!r}, term={self.term})"

    def _check(self, item: object) -> None:
        if not isinstance(item, str) or "\0" in item or not 1 <= len(item.encode()) <= MAX_ITEM:
            raise OptionError(f"once: expected an item of 1 to {MAX_ITEM} bytes of text without NUL, got {item!r}")
        if not self.trusted():
            raise LeaseLost(f"singleton '{self.name}': term {self.term} is over; {item!r} was not noted")

    def _answer(self, rows: Rows) -> bool:
        [(held, new)] = rows
        if not held:
            raise LeaseLost(f"singleton '{self.name}': term {self.term} is over; nothing was noted")
        return bool(new)
