"""Claim the jobs that wait for a worker of their kind: straight from `waiting`, past all processes that have none.

Run by the producer's thread of a worker process, in the queue's turn or after it has waited for the turn in vain, before it
claims available jobs: the waiting ones were at the front of the queue when a process without a worker for them claimed them. That
process put them to `waiting`, and sent a hint. The main thread makes a `Waiting` before the threads start; its attributes are
then the producer's thread's alone.

Why they are not made available again: nothing is decided in a claim, so the process that does not know their kind would claim
them again and again. As it is, such a job costs two updates more than others, however many processes share its queue, and however
few of them know it.

Nobody has to remember which jobs wait: the rows say it, and each process looks for its own kinds when it starts, at a hint, when
it has room again after a look that found more than it had room for, and now and then. So jobs of a kind that nobody knows rest,
and the first process that knows it finds them. The hints are counted on the board, which the processes of a host share, so that
one look answers a hint. A look that brings little is followed by a rest in proportion to it: while an old snapshot lives, the
index keeps the entries of jobs that wait no more, and each look walks over them.

Two processes that look at once take no job twice, since the claim looks at each row again and passes over locked ones. The hints
that they note as answered came before their own looks: if the older look ends last, one more look follows. If the claim of one
fails after the other has passed over its locked rows, these jobs wait for the next look, INTERVAL at most.

It deliberately neither makes a job wait, nor reports kinds that nobody knows (chores/unworked.py).
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from fastq.args.versions.names import unpaused
from fastq.board.cursor_words import CALLED
from fastq.events import emit
from fastq.postgres import db, sqlstate
from fastq.work.claim.demand import Portion
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import encode_ids
from fastq.work.cursor.cursor import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.board.cursor_words import CursorWords
    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.work.shared.budget import Budget

INTERVAL = 10.0
"""Seconds between looks that no hint calls for: with a lost hint a job waits so much longer. The figure of chores/promote.py, for
the same reason; without LISTEN it is that of the poll."""

REST = 3.0
"""Times the length of a look that no other follows it, unless it found more than there was room for: at most a quarter of the
producer's time goes into looks that bring little."""

TOLD_EVERY = 60.0
"""Seconds between two events of the same kind: the figure of oddities.py, for the same reason."""

_CLAIM = struct.Struct(">q")


class Waiting:
    """The waiting jobs of one queue, as one process sees them; the words are the host's."""

    def __init__(self, words: CursorWords, queue: str, kinds: Iterable[str], config: Config, *, peeked: bool = False) -> None:
        self.look_at = (
            NEVER if peeked else 0
        )  # monotonic ns before which `due` is false, as far as the hints go that were `heard`
        self.heard = 0  # hints when `due` was asked last
        self._words = words
        self._queue = queue
        self._known = frozenset(kinds)
        self._kinds = sorted(self._known)  # without the paused ones
        self._resumed = False  # there are kinds among them for which no look has been made
        self._portion = Portion(config)  # of our own: rows that cannot be claimed are set aside as among the available ones
        self.interval = config.poll_interval if config.poll_only else INTERVAL  # s; never changes
        self._peeked = peeked  # one look at all queues, so often, calls for a look at this one
        self._rests_until = 0  # monotonic ns
        self._told: dict[str, float] = {}  # monotonic time by kind

    def pause(self, paused: frozenset[str]) -> None:
        """Claim no jobs of these kinds from now on, and look soon for those of kinds that were paused."""
        before, self._kinds = self._kinds, unpaused(self._known, paused)
        self._resumed |= bool(set(self._kinds).difference(before))
        self.look_at = 0

    def due(self) -> bool:
        """Tell whether a look can find something, and note in `look_at` when to ask again."""
        words = self._words
        self.heard = words.waiting_hints
        looked_at = words.waiting_looked_at
        if self._resumed or self.heard != words.waiting_seen or looked_at == CALLED:
            at = 0
        else:
            at = NEVER if self._peeked else looked_at + int(self.interval * 1e9)
        self.look_at = max(at, self._rests_until)
        return time.monotonic_ns() >= self.look_at

    def claim(self, connection: Connection, next_claim: Callable[[], int], wanted: int, budget: Budget) -> Claimed:
        """Claim up to so many jobs of our kinds. A job that was found but not claimed is another process's, or is set aside."""
        words = self._words
        hints, began = words.waiting_hints, time.monotonic_ns()
        words.waiting_looked_at = began
        limit = self._portion.limit(wanted)
        bound = self._portion.bound(budget)
        rows = connection.run("job_waiting", self._queue, self._kinds, limit, bound.bytes, bound.aside, bound.counted_from)
        more = bool(rows) and bool(rows[0][2])
        claimed, refused = Claimed(self._queue, 0, []), False
        if rows:
            claimed, refused = self._claim(connection, next_claim(), rows)
        ended = time.monotonic_ns()
        self._resumed &= more or refused
        if not (more or refused):
            words.waiting_seen = hints  # as of the start: a hint that came during the look calls for another
        self._rests_until = 0 if more else ended + int(REST * (ended - began))
        self.look_at = 0  # ask
        return claimed

    def _claim(self, connection: Connection, number: int, rows: Sequence[tuple[int, str, bool]]) -> tuple[Claimed, bool]:
        """Claim the jobs that were found; where a row is refused, claim less next time, and at last set that row aside."""
        ids = sorted(id_ for id_, _, _ in rows)
        try:
            _, row = connection.run_blobs("job_claim_waiting", [_CLAIM.pack(number), encode_ids(ids), self._queue.encode()])
        except db.Error as error:
            if not sqlstate.row_refused(error):
                raise
            self._portion.failed(len(rows), self._queue, error)
            if len(rows) == 1:
                self._portion.set_aside(rows[0][0], rows[0][1], error)
            return Claimed(self._queue, number, []), True
        claimed = Claimed(self._queue, number, row)
        if len(claimed):
            self._portion.brought(len(claimed), len(claimed.args))
            self._tell({kind for _, kind, _ in rows}, len(claimed))
        return claimed, False

    def _tell(self, kinds: Iterable[str], count: int) -> None:
        now = time.monotonic()
        new = sorted(kind for kind in kinds if now - self._told.get(kind, -TOLD_EVERY) >= TOLD_EVERY)
        if new:
            self._told.update(dict.fromkeys(new, now))
            emit("kind.let_go", kinds=new, queue=self._queue, jobs=count)
