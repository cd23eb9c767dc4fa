"""Bulk: work through the operations of operators, the oldest first, a chunk at a time.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. It takes the oldest operation that has not
ended, looks for the next jobs from its place on (admin/search), and changes them (verbs.py). It is woken by the hint
'@operation'.

Invariants:
- The changes of a chunk, their numbers and the place behind them are one transaction, which begins with the fence and a lock on
the operation's row. So each job is changed once, also where a leader dies, and the next one goes on from the place.
- No job holds an operation up. A chunk that is refused is halved, until the job is alone that spoils it; this one is skipped, and
counted with the reason. A chunk that takes too long is halved, too.
- After each chunk it rests for as long as the chunk took, so it takes half of one connection at most.

What it keeps in memory are the jobs of a look that are not changed yet, and the size of a chunk: a new leader looks again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec

from fastq.admin.search import cursors
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.search.walks import Pace, walk
from fastq.admin.session import answered
from fastq.errors import OptionError
from fastq.events import emit
from fastq.lead.bulk import verbs
from fastq.lead.term.batch import ChoreSize
from fastq.lead.term.chore import block_ranges, transaction
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastq.admin.search.cursors import Place
    from fastq.admin.search.walks import Found
    from fastq.lead.term.chore import Site

CHUNK = 1_000
"""Jobs that one transaction changes: some 40 ms, for which a completion of one of them waits at most. As many as rescue and the
steward take."""

FOUND = 10_000
"""Jobs that are looked for at once, for ten chunks: they are kept in memory, some megabytes, until they are changed."""

PATIENCE = 0.3
"""Seconds for which they are looked for, if there are fewer: the other chores of the track wait so long."""

REST = 1.0
"""Times as long as a chunk took, until the next one: others have half of the disk and of a core at least."""

NAP = 0.005
"""Seconds between two looks at least; a guess."""

IDLE, IDLE_POLLING = 10.0, 1.0
"""Seconds between looks for operations if none is known, and without LISTEN: the figures of promote."""

PRUNE, PRUNED = 3_600.0, 1_000
"""Seconds between looks for old records, and records that one statement deletes."""

TRIES = 3
"""Times that an operation fails as a whole, one after the other, before it ends as failed: somebody has to mend what it lacks."""

REASON = 200
"""Characters of the reason for which a job was skipped."""


class Bulk:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "bulk"

    def __init__(self) -> None:
        self._size = ChoreSize(self.name, CHUNK)
        self._of: int | None = None  # the operation that `_jobs` are of
        self._jobs: Sequence[Found] = ()  # found and not changed yet
        self._behind: Place | None = None  # the place behind all of them; None: the end
        self._pace = Pace()  # of the looks for jobs
        self._cursor = ""  # the operation's place as its row has it
        self._prune_at = 0.0  # monotonic

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Change a chunk of the oldest operation, or delete old records."""
        began = time.monotonic()
        rows = site.connection.run("operation_next", [])
        if not rows:
            self._forget()
            return self._idle(site)
        number, verb, words, change, place = rows[0]
        try:
            wanted = JobFilter.parse(words)
            if self._of != number or self._cursor != place or not self._jobs:
                self._look(site, number, verb, wanted, place)
        except OptionError as error:  # a newer program has words that this one does not know
            self._note(site, number, place, "failed", error=str(error))
            return NAP
        self._chunk(site, number, verb, change, wanted)
        return max(NAP, REST * (time.monotonic() - began))

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""

    def _forget(self) -> None:
        self._of, self._jobs, self._cursor = None, (), ""

    def _idle(self, site: Site) -> float:
        now = time.monotonic()
        if now >= self._prune_at:
            (gone,) = site.write("audit_prune", PRUNED, site.config.audit_days)
            site.changed += gone
            self._prune_at = now if gone else now + PRUNE
        return IDLE_POLLING if site.config.poll_only else IDLE

    def _look(self, site: Site, number: int, verb: str, wanted: JobFilter, cursor: str) -> None:
        """Find the next jobs of an operation."""
        place = cursors.read(cursor, wanted)
        self._pace = self._pace if self._of == number else Pace()
        in_archive = place.leg != cursors.LIVING
        with block_ranges(site) if in_archive else nullcontext():
            asking = walk(
                wanted, place, FOUND, PATIENCE, pace=self._pace, ended_by=place.now if verb == "retry" else None, one_leg=True
            )
            looked = answered(site.connection, asking)
        self._of, self._jobs, self._behind, self._cursor = number, looked.found, looked.place, cursor

    def _chunk(self, site: Site, number: int, verb: str, change: str, wanted: JobFilter) -> None:
        """Change the first of the jobs that were found, and note the place behind them."""
        some = self._jobs[: self._size.now]
        whole = len(some) == len(self._jobs)
        behind = self._behind if whole else some[-1].behind
        try:
            self._write(site, number, verb, change, wanted, some, behind)
        except db.Error as error:
            if not site.connection.usable or not (sqlstate.too_slow(error) or sqlstate.row_refused(error) or _met_others(error)):
                raise
            if len(some) > 1:
                self._size.shrink(len(some))
                return
            reason = {f"refused: {db.first_line(error)}"[:REASON]: 1}
            emit("operation.job_skipped", level=logging.WARNING, id=number, job=some[0].job.id, error=db.first_line(error))
            self._put(site, number, wanted, behind, 0, reason)
        else:
            self._size.succeeded(len(some))
        self._jobs = self._jobs[len(some) :]

    def _write(
        self, site: Site, number: int, verb: str, change: str, wanted: JobFilter, some: Sequence[Found], behind: Place | None
    ) -> None:
        """Change jobs in one transaction with their numbers and the place behind them."""
        channel = None if site.config.poll_only else site.connection.schema
        with transaction(site):
            # Sessions of ours rule hash joins out; here a thousand outcomes are joined to a thousand ids.
            site.connection.execute("set local enable_hashjoin = on")
            open_, asked = site.write("operation_hold", number, self._cursor)
            if not open_:  # somebody has worked on it: look again
                self._forget()
                return
            if asked:
                done, skipped, state = 0, Counter[str](), "cancelled"
            else:
                done, skipped = verbs.change(site.connection, verb, some, change, channel) if some else (0, Counter[str]())
                state = "running" if behind is not None else "done"
            told = self._told(number, wanted, behind, done, skipped, state)
            [(total, _)] = site.connection.run("operation_note", *told)
        site.changed += done
        self._cursor = str(told[2] or self._cursor)
        if state != "running":
            emit("operation.ended", id=number, verb=verb, state=state, done=int(total))
            self._forget()

    def _put(
        self, site: Site, number: int, wanted: JobFilter, behind: Place | None, done: int, skipped: Mapping[str, int]
    ) -> None:
        """Note the place behind a job that was skipped."""
        state = "running" if behind is not None else "done"
        told = self._told(number, wanted, behind, done, skipped, state)
        with transaction(site):
            if site.write("operation_hold", number, self._cursor)[0]:
                site.connection.run("operation_note", *told)
        self._cursor = str(told[2] or self._cursor)

    def _note(self, site: Site, number: int, cursor: str, state: str, *, error: str) -> None:
        """End an operation that cannot be worked through."""
        with transaction(site):
            if site.write("operation_hold", number, cursor)[0]:
                site.connection.run("operation_note", number, state, None, 0, "{}", error)
        emit("operation.failed", level=logging.ERROR, id=number, error=error)

    def _told(
        self, number: int, wanted: JobFilter, behind: Place | None, done: int, skipped: Mapping[str, int], state: str
    ) -> tuple[object, ...]:
        """Return the parameters of operation_note.sql."""
        cursor = None if behind is None else cursors.written(behind, wanted)
        return number, state, cursor, done, msgspec.json.encode(dict(skipped)).decode(), None


def _met_others(error: BaseException) -> bool:
    """Tell whether a statement met rows that somebody else was changing, in another order: it may pass if it is smaller."""
    return sqlstate.taken_by_others(error)
