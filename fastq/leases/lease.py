"""Hold a name alone in the whole cluster for a while: a row with a holder, a term and a time at which it runs out.

The functions are run by the thread of an elector, in a supervisor or a worker process, and by that of a `Lease`; they keep
nothing but the identity of the process, for which any thread may ask. A `Lease`, public as `fastq.Lease`, belongs to one thread
of any program, which alone writes it; `trusted()` may be asked by any. Each statement is a transaction of its own and takes its
time from the server's clock.

Invariants:
- At most one holder per term, and the term grows with each acquisition, even over a failover that forgot some.
- A holder trusts itself until (before the request was sent + ttl - margin), on a clock that goes on while the machine is
  suspended. An answer that came late prolongs nothing; an error says nothing, and the time runs on.
- Statements of a holder can carry its `Fence`; a statement with the fence of an old term does nothing.

A connection of its own is rebuilt after an error, with a warning. One that was handed in is never closed, cut or replaced: its
errors are raised to its owner. A fork of the holder holds nothing, and leaves the holder's session alone.
It deliberately starts no thread: renewing is the caller's (or Elector's).
"""

from __future__ import annotations

import logging
import math
import os
import random
import secrets
import socket
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.config import Config, settled
from fastq.errors import ConfigError, DatabaseUnavailable, LeaseError
from fastq.events import emit
from fastq.postgres import connecting, db, hints, sqlstate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from fastq.postgres.db import Connection

MARGIN = 0.1
"""Share of the ttl by which trust ends before the lease does: clocks drift by parts in a million, this is for the time between
looking at the clock and acting."""

RENEW_AT = 0.4
"""Share of the ttl after which it is renewed: one lost renewal is survived, since there is time for another before trust ends."""

JITTER = 0.2
"""Seconds by which candidates differ at most when they try for a lease that runs out: fifty do not come at one moment, and
taking over still takes less than the ttl and half a second."""

BLOCKED = 0.03
"""Seconds until a lease is tried again that had run out and was locked: somebody was taking it, or finished a last statement."""

RELEASE_TIMEOUTS = (1.0, 2.0, 3.0)
"""Seconds for each attempt to release: River's figures. After that the lease runs out by itself."""

SHORTEST_LOOK = 1.0
"""Minimum time for one attempt, connecting included. Otherwise the last attempt of `acquire(timeout)` would have no time left,
and a lease with a short ttl could never be taken over a slow network."""

PATIENCE = 0.7
"""Share of the remaining trust that a renewal may take: if no answer comes, it is sent again on a new connection before the trust
is over. A smaller share would abandon answers that are only slow. Never less than SHORTEST_LOOK. A guess."""

SHORTEST_TTL, LONGEST_TTL = 0.1, 86_400.0
"""Seconds. Wider than FASTQ_LEASE_TTL's, which leaders go by: a lease of a user's may be for a test, or for a nightly run."""

MAX_NAME = 180
"""Bytes of a user's name; the table allows 200, with the prefix."""


boottime = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Return seconds on a clock that nobody sets and that counts while the machine is suspended."""


_identities: dict[int, str] = {}  # by pid, so that a fork has none; made by whichever thread asks first
os.register_at_fork(after_in_child=_identities.clear)  # an ancestor may have had our pid


def identity() -> str:
    """Return host:pid:random of this process: made when first asked for, another one after a fork or a restart."""
    pid = os.getpid()
    return _identities.get(pid) or _identities.setdefault(pid, identity_of(pid, secrets.randbits(32)))


def identity_of(pid: int, number: int) -> str:
    """Return the holder's name of a process of this host that has drawn this number."""
    return f"{socket.gethostname()[:60]}:{pid}:{number:08x}"


def number_of(identity: str) -> int:
    """Return the number that was drawn for an identity."""
    return int(identity.rpartition(":")[2], 16)


class Fence(NamedTuple):
    """The first three parameters of every chore's statement: with them it does nothing once its term is over."""

    name: str
    holder: str
    term: int


class Answer(NamedTuple):
    """The answer to an attempt to take a lease: the term, or its holder and for how long."""

    term: int | None
    holder: str | None
    expires_at: str | None  # as the server writes it: only compared, and handed back
    expires_in: float | None
    ttl: float | None


def acquire(
    connection: Connection,
    name: str,
    holder: str,
    ttl: float,
    queues: Sequence[str] | None = None,
    seen: str | None = None,
    timeout: float | None = None,
) -> Answer:
    """Try once. `seen` is an expiry that has not changed for its holder's whole ttl."""
    given = None if queues is None else list(queues)
    seconds = ttl * RENEW_AT if timeout is None else timeout
    try:
        return Answer(*connection.run_within(seconds, "lease_acquire", name, holder, ttl, given, seen)[0])
    except db.Error as error:
        if sqlstate.serialization_failed(error):
            return Answer(None, None, None, None, None)
        raise


def renew(connection: Connection, fences: Sequence[Fence], ttl: float, timeout: float) -> dict[str, bool]:
    """Prolong leases; return, for each that is still held, whether it was asked to resign."""
    names, holders, terms = (list(column) for column in zip(*fences, strict=True))
    return dict(connection.run_within(timeout, "lease_renew", names, holders, terms, ttl))


def release(connection: Connection, fence: Fence, timeout: float = RELEASE_TIMEOUTS[0]) -> bool:
    """Free a lease; False if it was not ours any more."""
    return bool(hints.sending(connection, lambda channel: connection.run_within(timeout, "lease_release", *fence, channel)))


def trust_of(sent: float, ttl: float) -> float:
    """Return until when (boottime) an answer to a request sent then may be trusted."""
    return sent + ttl * (1 - MARGIN)


def patience(left: float) -> float:
    """Return how long a renewal may take when so much of the trust is left."""
    return min(left, max(SHORTEST_LOOK, PATIENCE * left))


class Watch:
    """A candidate's knowledge of another holder's lease: when to try again, and if its expiry can be believed. Its thread's."""

    def __init__(self) -> None:
        self._expires_at: str | None = None
        self._since = 0.0
        self._ttl = 0.0

    def stale(self) -> str | None:
        """Return the expiry that has not moved for the holder's whole ttl: nobody renews it, even if it is in the future."""
        return self._expires_at if self._expires_at is not None and boottime() - self._since > self._ttl else None

    def note(self, answer: Answer) -> float:
        """Take in an answer; return in how many seconds to try again."""
        if answer.expires_at != self._expires_at:
            self._expires_at, self._since = answer.expires_at, boottime()
        self._ttl = answer.ttl or 0.0
        left = answer.expires_in if answer.expires_in is not None else 0.0
        if left <= 0 or not answer.holder:
            return BLOCKED * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        return min(left, self._ttl) + random.uniform(0.01, min(JITTER, self._ttl / 10 + 0.01))  # noqa: S311 - the same


class Lease:
    """A lease by name: `with Lease("report"): ...` or `acquire`, `renew` now and then, `release`."""

    def __init__(
        self,
        name: str,
        *,
        url: str | None = None,
        schema: str | None = None,
        conn: Any = None,  # a psycopg.Connection in autocommit
        ttl: float | None = None,
        config: Config | None = None,
    ) -> None:
        self._config = settled(config, database_url=url, schema=schema)
        self.ttl = check_ttl(self._config.lease_ttl if ttl is None else ttl)
        self.name = check_name(name)
        if conn is None and not self._config.database_url:
            raise ConfigError("a lease needs a database: set FASTQ_DATABASE_URL, or give url or conn")
        self._owned = conn is None
        self._connection: Connection | None = None if conn is None else db.adopt(conn, self._config)
        self._fence: Fence | None = None
        self._trusted_until = 0.0  # written by the owner's thread, read by all
        self._process = os.getpid()  # the process that all of this belongs to; a fork of it holds nothing

    def try_acquire(self) -> bool:
        """Take the lease if it is to be had now; False as well when it is ours already (renewing is `renew`)."""
        return self._try(Watch(), self._config.statement_timeout)[0]

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for the lease; False if it was not to be had within `timeout` seconds."""
        for pause in self.attempts(timeout):
            time.sleep(pause)
        return self.trusted()

    def attempts(self, timeout: float | None = None) -> Iterator[float]:
        """Try for the lease until it is ours or the time is over; yield the seconds to sleep before each further attempt."""
        watch, give_up = Watch(), math.inf if timeout is None else boottime() + timeout
        while True:
            acquired, pause = self._try(watch, min(self._config.statement_timeout, give_up - boottime()))
            if acquired:
                return
            if boottime() + pause >= give_up:
                yield max(0.0, give_up - boottime())
                self._try(watch, 0.0)
                return
            yield min(pause, self._config.poll_interval)

    def renew(self) -> bool:
        """Prolong the lease; False when it is not ours any more: stop acting now. An error leaves it unknown: trust runs out."""
        self._settle()
        if self._fence is None:
            return False
        sent = boottime()
        if sent >= self._trusted_until:
            self._lose()  # work that was begun in the time that has run out must not go on
            return False
        until = sent + min(patience(self._trusted_until - sent), self._config.statement_timeout)
        with self._session(until) as connection:
            held = renew(connection, [self._fence], self.ttl, _left(until))
        resign = held.get(self._fence.name)
        if resign is None:
            self._lose()
            return False
        if resign or not self.trusted():  # or the answer came after the trust was over: others may have seen that, and stopped
            self.release()
            return False
        self._trusted_until = trust_of(sent, self.ttl)
        return True

    def release(self) -> bool:
        """Free the lease at once; False if it was not ours any more."""
        self._settle()
        fence, self._fence, self._trusted_until = self._fence, None, 0.0
        if fence is None:
            return False
        until = boottime() + RELEASE_TIMEOUTS[0]
        with self._session(until) as connection:
            return release(connection, fence, _left(until))

    def trusted(self) -> bool:
        """Tell whether we may still act as the holder; costs no statement, may be asked by any thread."""
        return boottime() < self._trusted_until and self._process == os.getpid()

    @property
    def term(self) -> int | None:
        """Return the term that we hold the lease in; None when we do not."""
        return self._fence.term if self._fence is not None and self.trusted() else None

    @property
    def fence(self) -> Fence | None:
        """Return the fence for statements that shall do nothing once the term is over; None if the lease is not held."""
        return self._fence if self._process == os.getpid() else None

    def close(self) -> None:
        """Release, and close the connection if it is ours; if the database does not answer, the lease runs out by itself."""
        try:
            self.release()
        except DatabaseUnavailable:
            if not self._owned:
                raise
        self._drop()

    def __enter__(self) -> Self:
        """Wait until we hold it."""
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Free it."""
        self.close()

    def _settle(self) -> None:
        """Begin anew in a fork: it is not the holder, and must neither use nor close the session, which is still the holder's."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._lose()
            if self._owned:
                self._connection = None

    def _try(self, watch: Watch, seconds: float) -> tuple[bool, float]:
        self._settle()
        until = boottime() + max(seconds, SHORTEST_LOOK)
        with self._session(until) as connection:
            sent = boottime()
            within = min(self.ttl * RENEW_AT, _left(until))  # an answer that comes later would leave little of the ttl
            answer = acquire(connection, f"user:{self.name}", identity(), self.ttl, None, watch.stale(), within)
        if answer.term is None:
            return False, watch.note(answer)
        self._fence = Fence(f"user:{self.name}", identity(), answer.term)
        self._trusted_until = trust_of(sent, self.ttl)
        if not self.trusted():  # an answer that took that long gives nothing that could be used
            self.release()
            return False, 0.0
        return True, 0.0

    @contextmanager
    def _session(self, until: float) -> Iterator[Connection]:
        """Give the connection for a statement; an own one that failed is dropped, and the next statement builds another."""
        try:
            if self._connection is None:
                self._connection = connecting.session_within(_left(until), self._config, self._config.database_url, "lease")
            yield self._connection
        except (db.Error, DatabaseUnavailable) as error:
            if self._owned:
                emit("lease.connection_dropped", level=logging.WARNING, lease=self.name, error=type(error).__name__)
                self._drop()
            raise DatabaseUnavailable(f"the lease '{self.name}': {db.first_line(error)}") from error

    def _lose(self) -> None:
        self._fence, self._trusted_until = None, 0.0

    def _drop(self) -> None:
        if self._owned and self._connection is not None:
            self._connection.close()
            self._connection = None


def _left(until: float) -> float:
    """Return the seconds until a boottime, a moment at least: a late statement then fails by its time limit."""
    return max(0.01, until - boottime())


def check_name(name: object) -> str:
    """Return a user's name of a lease if it can be one."""
    text = isinstance(name, str) and name.strip() and name.isprintable()
    if not isinstance(name, str) or not text or len(name.encode()) > MAX_NAME:
        raise LeaseError(f"lease name: expected 1 to {MAX_NAME} bytes of printable text that are not all blank, got {name!r}")
    return name


def check_ttl(ttl: object) -> float:
    """Return a ttl if it can be one: long enough to be renewed in time."""
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not SHORTEST_TTL <= ttl <= LONGEST_TTL:
        raise LeaseError(f"ttl: expected {SHORTEST_TTL:g} to {LONGEST_TTL:g} seconds, got {ttl!r}")
    return float(ttl)
