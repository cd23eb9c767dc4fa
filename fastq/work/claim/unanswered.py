"""Hand back the jobs of a claim if its answer never came: no other process would ever hear of them.

Made by the main thread of a worker process, with the producer, then used and written by the producer's thread alone, on its next
connection and now and then. A session that was cut goes on in the server for as long as its wait for a lock, a disk or a standby
lasts. Its claim may commit after we have looked. So that session is ended, and its end awaited, before its claim's jobs are
looked for; until then its claim stays on the desk and nothing new is claimed. Through a pooler a pid may be another client's:
there the claims are looked for again and again, for a while.

It deliberately does nothing when the process dies: the desk shows the claim and both sessions to the supervisor. A claim that
commits after that carries the number of a process that is gone, and rescue looks for such jobs.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.events import emit
from fastq.postgres import hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.work.cursor.claims import UnderWay

SESSION_END_TIMEOUT = 2.0
"""Seconds to wait for the end of a session: the recovery's figure; at most half of a statement's time limit."""

FIRST_LOOK, LAST_LOOK = 1.0, 600.0
"""Through a pooler a claim is looked for again after 1 s, 2 s, 4 s ..., for 10 minutes in all. Guesses: its lock is gone within
minutes, or somebody sees to it."""


@dataclass
class Claim:
    """A claim that may commit yet: its number, its queue, a seq below all that it can take, when to look again."""

    number: int
    queue: str
    after: int
    look_at: float = 0.0  # monotonic
    pauses: Backoff = field(default_factory=lambda: Backoff(FIRST_LOOK, LAST_LOOK))


class Unanswered:
    """The claims of one producer that were never answered. The one that is not settled yet is under way."""

    def __init__(self, under_way: UnderWay, config: Config, queues: Sequence[str]) -> None:
        self._under_way = under_way
        self._config = config
        self._queues = queues
        self._open: list[Claim] = []  # through a pooler alone
        self.look_at = math.inf  # monotonic: when the first of them is looked for again; read by the producer

    def settle(self, connection: Connection) -> None:
        """Hand back the jobs of the claim under way, once it can commit no more."""
        sent = self._under_way
        if sent.number:
            cut = sent.cut_session
            if cut and cut != connection.backend_pid and not self._config.poll_only:
                self._end(connection, cut)
            claim = Claim(sent.number, self._queues[sent.queue], sent.after)
            if not self._hand_back(connection, claim) and self._config.poll_only:
                self._look_later(claim)
        sent.settled()

    def look_again(self, connection: Connection) -> None:
        """Look for the claims that may have committed since."""
        now = time.monotonic()
        for claim in [one for one in self._open if one.look_at <= now]:
            found = self._hand_back(connection, claim)
            self._open.remove(claim)
            if not found and claim.pauses.coming < LAST_LOOK:  # the pauses so far add up to the coming one
                self._look_later(claim)
        self.look_at = min((claim.look_at for claim in self._open), default=math.inf)

    def _look_later(self, claim: Claim) -> None:
        claim.look_at = time.monotonic() + claim.pauses.next()
        self._open.append(claim)
        self.look_at = min(self.look_at, claim.look_at)

    def _end(self, connection: Connection, pid: int) -> None:
        seconds = min(SESSION_END_TIMEOUT, self._config.statement_timeout / 2)
        _, left = connection.run_one("session_end", [pid], int(seconds * 1000))
        if left:
            raise DatabaseUnavailable(f"the session {pid}, which was cut, has not ended yet: its claim may still take jobs")

    def _hand_back(self, connection: Connection, claim: Claim) -> bool:
        ids = [id_ for (id_,) in connection.run("job_of_claim", claim.queue, claim.after, claim.number)]
        if ids:
            hints.sending(connection, lambda channel: connection.run("job_release", ids, [claim.number], channel))
            emit("claim.handed_back", level=logging.WARNING, count=len(ids))
        return bool(ids)
