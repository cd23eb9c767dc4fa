"""Stand for leases, hold them, and say when a term begins and when it ends: one thread, one connection, several leases.

Runs in the supervisor for its leader leases, and in a worker process for its singletons. The main thread makes an `Elector` and
its candidacies, starts it and ends it; the elector's thread owns the connection, the candidacies' state and the leases. The work
of a term is not its business: it calls `begin` and `end` of a candidacy in its thread, in order, none left out, and both return
at once; so does `leave`.

    following   somebody else holds the lease, or nobody yet: try when it runs out (the answer tells when), or upon a hint
    holding     renew after RENEW_AT of the ttl, all leases in one statement, sooner upon a hint
    resting     resigned: leave the lease to others for a while, then follow

Invariants:
- A term ends at the latest when its trust does, even if the database, the network or the connection hang: every statement has
  a deadline before that, and a missing answer counts as a failed statement.
- It ends with 'lost' when somebody else may hold the lease, with 'resign' or 'stop' before it is released. It never goes on after
  its trust was over: an answer that came later releases the lease, for the threads of the term may have stopped.
- A request to resign counts if it names the present term (a row); a notification only makes it look.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from fastq.backoff import Backoff, spread
from fastq.errors import DatabaseUnavailable
from fastq.events import emit
from fastq.leases import lease
from fastq.leases.lease import Fence, Watch, boottime
from fastq.postgres import db
from fastq.postgres.connecting import Opener
from fastq.postgres.kept import Rebuilt
from fastq.service import Threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.config import Config
    from fastq.postgres.db import Connection

REST = 2.0
"""Seconds for which a candidate that has resigned leaves the lease to others: twice the poll of those without notifications."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between attempts to reach the database, doubling: a restarted server is found soon."""

ASKED = "it was asked to (fastq leader resign)"
"""The reason for giving up a lease when its row asks for it."""

HINT_REST = 0.05
"""Seconds between looks that hints cause: with any number of notifications nobody can cause more than twenty statements a second.
A look comes after a random share of it, so that fifty candidates do not look at one moment."""


class Trust:
    """Until when a holder may act; written by the elector's thread, read by the threads of the term."""

    def __init__(self, until: float) -> None:
        self.until = until

    def holds(self) -> bool:
        """Tell whether the holder may still act."""
        return boottime() < self.until

    def left(self) -> float:
        """Return the seconds that are left of it."""
        return max(0.0, self.until - boottime())


class Candidacy:
    """A lease to stand for, and functions for the begin and end of a term. All but `rest` is written by the elector's thread."""

    def __init__(
        self,
        name: str,
        begin: Callable[[Fence, Trust], None],
        end: Callable[[Fence, str], None],
        queues: Sequence[str] | None = None,
        leave: Callable[[Fence], None] | None = None,
    ) -> None:
        self.name = name
        self.queues = queues
        self.begin = begin
        self.end = end
        self.leave = leave  # somebody asks for the lease: come to an end and then call `resign`. None: it is given up at once
        self.fence: Fence | None = None
        self.trust = Trust(0.0)
        self.due = 0.0  # boottime of the next try or renewal
        self.looked_at = 0.0  # boottime of the last one
        self.rests_until = 0.0  # boottime
        self.rest = REST  # seconds that the lease is left to others after resigning; set by the thread that has it resign, before
        self.watch = Watch()


class Elector(Threaded):
    """The elector's thread. `hint`, `resign` and `stop` may be called by any thread."""

    def __init__(self, config: Config, url: str, candidacies: Sequence[Candidacy], role: str = "elector") -> None:
        super().__init__(role)
        self._config = config
        self._ttl = config.lease_ttl
        self._candidacies = list(candidacies)
        self._session = Rebuilt("elector", Opener(config, url, role).open, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        self._connect_at = 0.0  # boottime before which the database is left alone; the thread's own
        self._wakeup = threading.Event()
        self._stopping = False  # set by `stop`, once
        self._hinted: set[str] = set()  # names to look at; added to by others, emptied by the thread, under the lock
        self._unwanted: dict[Fence, str] = {}  # terms that cannot do their work, and why; the same
        self._releasing: list[tuple[Fence, int]] = []  # leases to release, with the number of attempts; the thread's own
        self._lock = threading.Lock()

    def hint(self, name: str) -> None:
        """Look at a lease now: it was released, or its holder was asked to resign."""
        with self._lock:
            self._hinted.add(name)
        self._wakeup.set()

    def resign(self, fence: Fence, why: str) -> None:
        """Give a lease up, if it is still held in this term; `why` goes into the log."""
        with self._lock:
            self._unwanted[fence] = why
        self._wakeup.set()

    def stop(self) -> float:
        """End the terms, release the leases and end."""
        self._stopping = True
        self._wakeup.set()
        return 0.0

    def finish(self, by: float) -> float:
        """End the same way; the process waits for that, since a lease that is not released keeps others waiting."""
        self.stop()
        return max(0.0, by - time.monotonic())

    def _run(self) -> None:
        while not self._stopping:
            self._take_hints()
            self._end_distrusted()
            try:
                if boottime() >= self._connect_at:
                    self._release()
                    self._elect()
            except (db.Error, DatabaseUnavailable) as error:
                self._rest_after(error)
            except Exception as error:  # noqa: BLE001 - no more threads, or a bug: rather no holder than one that does nothing
                self._releasing += [(self._lose(candidacy), 0) for candidacy in self._held()]
                self._rest_after(error)
            self._wait()
        self._release_all()
        self._session.drop()

    def _rest_after(self, error: Exception) -> None:
        self._connect_at = boottime() + spread(self._session.failed(f"{type(error).__name__}: {db.first_line(error)}"))

    def _wait(self) -> None:
        """Sleep until a lease is due, a trust is over, or somebody calls."""
        work = [candidacy.due for candidacy in self._candidacies] + [0.0] * bool(self._releasing)
        moments = [max(min(work), self._connect_at), *(held.trust.until for held in self._held())]
        if not self._stopping and self._wakeup.wait(max(0.0, min(moments) - boottime())):
            self._wakeup.clear()

    def _held(self) -> list[Candidacy]:
        return [candidacy for candidacy in self._candidacies if candidacy.fence is not None]

    def _take_hints(self) -> None:
        with self._lock:
            hinted, unwanted = self._hinted, self._unwanted
            self._hinted, self._unwanted = set(), {}
        now = boottime()
        for candidacy in self._candidacies:
            if candidacy.name in hinted and now >= candidacy.rests_until and candidacy.due > now + HINT_REST:
                soon = now + HINT_REST * random.uniform(0.0, 1.0)  # noqa: S311 - no secret
                candidacy.due = min(candidacy.due, max(soon, candidacy.looked_at + HINT_REST))
            why = unwanted.get(candidacy.fence) if candidacy.fence else None
            if why and candidacy.trust.holds():  # else it is lost, and after a loss there is no need to rest
                self._resign(candidacy, why)

    def _end_distrusted(self) -> None:
        for candidacy in self._held():
            if not candidacy.trust.holds():
                self._lose(candidacy)

    def _elect(self) -> None:
        """Renew the held leases that are due, try for the others."""
        now = boottime()
        if any(now >= held.due for held in self._held()):
            self._renew()
            self._release()
        for candidacy in self._candidacies:
            if candidacy.fence is None and boottime() >= candidacy.due:
                self._try(candidacy)

    def _renew(self) -> None:
        """Renew everything that is held in one statement, due or not."""
        held, sent = self._held(), boottime()
        for candidacy in held:  # if this fails it is tried again soon, on another connection
            candidacy.due, candidacy.looked_at = sent + FIRST_PAUSE, sent
        fences = [candidacy.fence for candidacy in held if candidacy.fence is not None]
        until = sent + lease.patience(self._within(self._ttl))
        connection = self._connected(until - sent)
        answer = lease.renew(connection, fences, self._ttl, self._within(max(0.01, until - boottime())))
        self._session.pauses.reset()
        for candidacy in held:
            if candidacy.name not in answer:
                self._lose(candidacy)
                continue
            if not candidacy.trust.holds():
                self._releasing.append((self._lose(candidacy), 0))
                continue
            candidacy.trust.until = lease.trust_of(sent, self._ttl)
            candidacy.due = sent + self._ttl * lease.RENEW_AT
            if not answer[candidacy.name]:
                continue
            if candidacy.leave is not None and candidacy.fence is not None:
                candidacy.leave(candidacy.fence)
            else:
                self._resign(candidacy, ASKED)

    def _try(self, candidacy: Candidacy) -> None:
        connection, name, holder = self._connected(db.CONNECT_TIMEOUT), candidacy.name, lease.identity()
        candidacy.looked_at = sent = boottime()
        timeout = self._within(self._ttl * lease.RENEW_AT)
        answer = lease.acquire(connection, name, holder, self._ttl, candidacy.queues, candidacy.watch.stale(), timeout)
        self._session.pauses.reset()
        if answer.term is None:
            wait = candidacy.watch.note(answer)
            candidacy.due = boottime() + (min(wait, self._config.poll_interval) if self._config.poll_only else wait)
            return
        candidacy.fence = Fence(candidacy.name, holder, answer.term)
        candidacy.trust = Trust(lease.trust_of(sent, self._ttl))
        candidacy.due = sent + self._ttl * lease.RENEW_AT
        candidacy.watch = Watch()
        emit("lease.acquired", lease=candidacy.name, term=answer.term)
        candidacy.begin(candidacy.fence, candidacy.trust)

    def _lose(self, candidacy: Candidacy) -> Fence:
        """End a term that may not be ours any more: the lease ran out or was taken, or no answer came in time."""
        fence = self._end(candidacy, "lost")
        emit("lease.lost", level=logging.WARNING, lease=fence.name, term=fence.term)
        candidacy.due = boottime()
        return fence

    def _resign(self, candidacy: Candidacy, why: str) -> None:
        """Give a lease up and leave it to others for a while."""
        fence = self._end(candidacy, "resign")
        emit("lease.resigned", lease=fence.name, term=fence.term, reason=why)
        candidacy.due = candidacy.rests_until = boottime() + candidacy.rest
        self._releasing.append((fence, 0))

    def _release(self) -> None:
        """Release the leases that were given up. A failed attempt is repeated; in the end the lease runs out by itself."""
        while self._releasing:
            fence, attempt = self._releasing.pop(0)
            if attempt + 1 < len(lease.RELEASE_TIMEOUTS):
                self._releasing.insert(0, (fence, attempt + 1))  # until it has succeeded
            until = boottime() + self._within(lease.RELEASE_TIMEOUTS[attempt])
            connection = self._connected(until - boottime())
            if lease.release(connection, fence, max(0.01, until - boottime())):
                emit("lease.released", lease=fence.name, term=fence.term)
            self._releasing = [waiting for waiting in self._releasing if waiting[0] != fence]

    def _end(self, candidacy: Candidacy, reason: str) -> Fence:
        fence, candidacy.fence = candidacy.fence, None
        assert fence is not None, "a candidacy that holds no lease cannot end"
        if reason == "lost":
            candidacy.trust.until = 0.0  # before anybody acts upon the news
        candidacy.end(fence, reason)
        candidacy.trust.until = 0.0  # only now: a thread that saw no trust before `end` ran would report the term as lost
        return fence

    def _release_all(self) -> None:
        """Release everything, in as many attempts as that may take."""
        self._releasing += [(self._end(candidacy, "stop"), 0) for candidacy in self._held()]
        while self._releasing:
            try:
                self._release()
            except (db.Error, DatabaseUnavailable) as error:
                emit("lease.not_released", level=logging.WARNING, error=db.first_line(error))
                self._session.drop()

    def _within(self, seconds: float) -> float:
        """Return how long to wait for an answer at most: not beyond the trust in any term that is under way."""
        return max(0.01, min([seconds, *(held.trust.left() for held in self._held())]))

    def _connected(self, seconds: float) -> Connection:
        return self._session.open(self._within(seconds))
