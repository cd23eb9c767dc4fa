# Made by tools/twins.py from awaiting/ends_async.py: change that file, then run `make twins`.
"""Find out when jobs end: one caller looks for all that wait in a process, in one statement a round.

Runs in the threads that wait; a client has one of these for each process. There is no thread of ours: of the callers that
wait, one has the turn and looks, for the jobs of all of them, while the others sleep. When its own jobs have ended it hands
the turn on. So a thousand waits cost as many statements as one, and nothing runs where nobody waits.

A look asks which jobs are no longer alive, by the primary key, and how those have ended that are not: first in the newest part of
the archive, for most have been alive a moment ago; then in all of it, for the others. The next look comes after a part of the
time in which nothing has happened (finished.py), so a wait takes at most that part longer than the job did, and looks for long
jobs are rare.

Invariants:
- Nobody else pays for a wait: no statement of a worker process knows of it, and no notification is sent.
- A job counts as missing only when two looks have found it neither alive nor in the archive: a job that moves between the two
  tables between two statements is found by the next look.
- While the database is away the callers go on waiting, each until its own timeout.

It deliberately keeps no connection: each look takes one of the client's pool, and gives it back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fastq.awaiting.finished import Looks, Waiting
from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.events import Seldom, emit
from fastq.postgres import db
from fastq.postgres.pool import in_threads

if TYPE_CHECKING:
    from fastq.adapters.library import Rows

SLACK = 5.0
"""Seconds by which the end of a job may be older than the last look: an end is as old as its transaction, which may have lasted.
One that is older still is found by a look at the whole archive."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two attempts while the database is away: a restart takes about a second."""

SLEEP = 60.0
"""Seconds that a caller without the turn sleeps at most; it is woken when something happens, so this is for nothing but form."""

Read = Callable[[str, tuple[object, ...]], "Rows"]
"""A function that runs a statement of fastq/sql on a connection of the client's."""


class Ends:
    """The waits of one process."""

    def __init__(self, read: Read, reached: Callable[[], bool]) -> None:
        self._read = read
        self._reached = reached  # tells whether there was a connection once, so the settings are right: a failure now may pass
        self._waiting: set[Waiting] = set()  # each change is one step
        self._turn = [True]  # the caller that takes it out looks; the list's own lock makes that one step
        self._news = in_threads.Bell()  # there are new jobs to look for
        self._looks = Looks()
        self._seldom = Seldom()

    def wait(self, ids: Iterable[int], end: float) -> Waiting:
        """Return when the jobs have ended, or one of them is missing, or the monotonic time has come."""
        mine = Waiting(ids, in_threads.Bell())
        self._waiting.add(mine)
        self._looks.began()
        self._news.set()
        try:
            while not mine.over and (left := end - time.monotonic()) > 0:
                if self._take_turn():
                    try:
                        self._look(mine, end)
                    finally:
                        self._turn.append(True)
                else:
                    mine.bell.wait(min(left, SLEEP))
                    mine.bell.clear()
        finally:
            self._waiting.discard(mine)
            self._hand_on()
        return mine

    def _take_turn(self) -> bool:
        try:
            return self._turn.pop()
        except IndexError:
            return False

    def _hand_on(self) -> None:
        """Wake another caller, which takes the turn if nobody has it."""
        if self._turn and (others := [other for other in self._waiting.copy() if not other.over]):
            others[0].bell.set()

    def _look(self, mine: Waiting, end: float) -> None:
        """Look for everybody's jobs until our own have ended."""
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            self._news.clear()
            began = time.monotonic()
            try:
                self._round()
            except (*db.Lost, DatabaseUnavailable) as error:
                if not self._reached():
                    raise
                if self._seldom.lets(str(error)):
                    emit("wait.interrupted", level=logging.WARNING, calls=len(self._waiting), error=db.first_line(error))
                pause = pauses.next()
            else:
                pauses.reset()
                pause = self._looks.pause(began)
            left = end - time.monotonic()
            if mine.over or left <= 0:
                return
            self._news.wait(min(pause, left))

    def _round(self) -> None:
        """Look once."""
        waiting = self._waiting.copy()
        ids = sorted({job_id for each in waiting for job_id in each.left})
        if not ids:
            return
        found = self._read("job_ends", (ids, self._looks.since + SLACK))
        gone = {int(row[0]) for row in found}
        rows = _ended(found)
        if older := sorted(gone - rows.keys()):
            rows |= _ended(self._read("job_ended", (older,)))
        missing = self._looks.took(gone, rows)
        for each in waiting if gone else ():
            each.tell(rows, missing)


def _ended(rows: Rows) -> dict[int, Sequence[Any]]:
    """Return the rows of the jobs of which it is known how they have ended, by their ids."""
    return {int(row[0]): row for row in rows if row[1] is not None}
