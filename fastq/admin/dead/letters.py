# Made by tools/twins.py from admin/dead/letters_async.py: change that file, then run `make twins`.
"""Group the discarded jobs of the archive, replay and delete them: methods of a client.

A base class of `Client` (enqueue/client.py), and of an operator's
(operating.py), which own the connections; this class keeps no state. Its methods run in
the caller's thread.

`AsyncDeadLetters` (letters_async.py) is the same part of `AsyncClient`, and the source of this one.

A list reads from the newest job to older ones, page by page, and stops when its time is over. A replay and a deletion go from
the oldest job to the newest that was there when they began, so a job that is replayed and discarded again is not replayed for
ever. Each page is changed by one statement in a transaction of its own: when the program ends in between, whole pages are done,
and the same call goes on with the rest.

It deliberately takes no connection of the caller's: a replay of a million jobs is no part of a transaction.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Unpack

from fastq.admin.dead.groups import IDS, Dead, DeadList, Filter, Groups, Replayed, Which, check_rate, since_of
from fastq.errors import OptionError
from fastq.events import emit

PAGE = 5_000
"""Discarded jobs that one statement reads for a list: some 50 ms."""

CHUNK = 500
"""Discarded jobs that one statement replays or deletes at most: some 50 ms, which disturbs no worker. A guess."""

PATIENCE = 5.0
"""Seconds after which a list looks no further back: as long as a person waits without wondering. A guess."""

ROUNDS = 10
"""Statements for a page in which other programs take the keys of unique jobs meanwhile; a guess."""

LAST_ID = 2**63 - 1
"""The largest number that a column of type bigint can hold."""

COUNTED = {"replayed": "jobs", "done": "done", "step": "steps", "order": "in_order", "held": "held"}
"""The fields of `Replayed` by the outcomes of dead_replay.sql."""


class DeadLetters:
    """The part of a client that is about discarded jobs."""

    _patience: float | None = None
    _at_once: int | None = None
    """Those of a list where they are other ones than PATIENCE and PAGE."""

    def dead(self, group: str | None = None, *, limit: int = 50, **which: Unpack[Which]) -> DeadList:
        """Group the discarded jobs by kind, cause and message; return the groups with most jobs.

        Numbers, ids, quoted texts, addresses and paths in a message make no difference. It reads the newest jobs first, for some
        seconds at most, and says then how far it came.
        """
        wanted, groups, size = Filter.of(group, which), Groups(), self._at_once or PAGE
        give_up = time.monotonic() + (self._patience or PATIENCE)
        low, at = self._span(which)
        last, searched_to = LAST_ID, None
        while True:
            rows = self._page("dead_list", (at, last, low, wanted.kind, wanted.queue), size)
            for row in rows:
                if wanted.fits(row):
                    groups.add(row)
            if len(rows) < size:
                break
            at, last = rows[-1].at, rows[-1].id
            if time.monotonic() > give_up:
                searched_to = at
                break
        older = self._ask("dead_gone", (wanted.kind,))
        return groups.told(limit, {str(kind): int(jobs) for kind, jobs in older}, searched_to)

    def replay(
        self,
        group: str | None = None,
        *,
        rate: float | None = None,
        limit: int | None = None,
        again: bool = False,
        dry_run: bool = False,
        **which: Unpack[Which],
    ) -> Replayed:
        """Enqueue a new job for each discarded one that is meant, the oldest first; return how many, and which were skipped.

        A new job has the args, queue, priority, max_attempts and tags of the old one, and its id as `replay_of`; the old one
        stays as it is. `rate`: so many may start in a second. `limit`: so many new jobs at most; those that are skipped do not
        count. Without `again` no job is replayed twice. `dry_run` changes nothing, and counts.
        """
        told, seconds, began = Replayed(), check_rate(rate), 0
        low, high, wanted = self._meant(group, which)
        try:
            for page in self._pages(low, high, wanted, None):
                rows = page
                while rows and (limit is None or told.jobs < limit):
                    left, rows = _next(rows, None if limit is None else limit - told.jobs, again, told)
                    if dry_run:
                        told.jobs += len(left)
                    elif left:
                        self._replay(left, (high if rate is not None else None, seconds, began, again), told)
                        began += len(left)
                if limit is not None and told.jobs >= limit:
                    break
        finally:
            if not dry_run:
                kind, queue, cause = which.get("kind"), which.get("queue"), which.get("cause")
                meant = {"group": group, "kind": kind, "queue": queue, "cause": cause}
                emit("jobs.replayed", level=logging.INFO, jobs=told.jobs, skipped=told.skipped, rate=rate, **meant)
        return told

    def delete_dead(
        self, group: str | None = None, *, limit: int | None = None, dry_run: bool = False, **which: Unpack[Which]
    ) -> int:
        """Delete the discarded jobs that are meant, the oldest first; return how many. `dry_run` changes nothing, and counts."""
        low, high, wanted = self._meant(group, which)
        deleted = 0
        for rows in self._pages(low, high, wanted, limit):
            if dry_run:
                deleted += len(rows)
            else:
                [(count, _)] = self._ask_hinting("dead_delete", (_ids(rows), rows[0].at, rows[-1].at))
                deleted += int(count)
        return deleted

    def _replay(self, rows: list[Dead], how: tuple[object, ...], told: Replayed) -> None:
        """Replay the jobs of a page; once more those whose key another transaction took meanwhile."""
        missing = len(rows)
        for _ in range(ROUNDS):
            answers = self._ask_hinting("dead_replay", (_ids(rows), *how))
            counts = Counter(outcome for _, outcome, _ in answers)
            for outcome, name in COUNTED.items():
                setattr(told, name, getattr(told, name) + counts[outcome])
            missing -= len(answers) - counts["unseen"]
            for old, outcome, holder in answers:
                if outcome == "held" and len(told.holders) < IDS:
                    told.holders[old] = holder
            unseen = {old for old, outcome, _ in answers if outcome == "unseen"}
            rows = [row for row in rows if row.id in unseen]
            if not rows:
                break
        told.held += len(rows)
        told.missing += missing - len(rows)

    def _meant(self, group: str | None, which: Which) -> tuple[datetime, datetime, Filter]:
        """Return the span of time and the filter of a change; OptionError if that would mean everything."""
        if group is None and not any(value is not None for value in which.values()):
            raise OptionError("expected a group, or one of kind=, queue=, cause= and since=: all discarded jobs are never meant")
        low, high = self._span(which)
        return low, high, Filter.of(group, which)

    def _span(self, which: Which) -> tuple[datetime, datetime]:
        """Return the times, by the database's clock, between which jobs are looked for."""
        seconds, since = since_of(which.get("since"))
        [(low, now)] = self._ask("dead_span", (seconds,))
        return since or low, now

    def _pages(self, low: datetime, high: datetime, wanted: Filter, limit: int | None) -> Iterator[list[Dead]]:
        """Yield the jobs that fit, by the page, the oldest first."""
        at, last, left = low, 0, limit
        while left is None or left > 0:
            page = self._page("dead_after", (at, last, high, wanted.kind, wanted.queue), CHUNK)
            rows = [row for row in page if wanted.fits(row)][:left]
            if rows:
                yield rows
            if len(page) < CHUNK:
                return
            at, last = page[-1].at, page[-1].id
            left = None if left is None else left - len(rows)

    def _page(self, name: str, parameters: tuple[object, ...], size: int) -> list[Dead]:
        return [Dead(*row) for row in self._ask(name, (*parameters, size))]

    def _ask(self, name: str, parameters: tuple[object, ...]) -> Sequence[Sequence[Any]]:
        """Run a statement of fastq/sql that reads."""
        raise NotImplementedError

    def _ask_hinting(self, name: str, parameters: tuple[object, ...]) -> Sequence[Sequence[Any]]:
        """Run a statement of fastq/sql that notifies, with the channel as its last parameter."""
        raise NotImplementedError


def _next(rows: list[Dead], most: int | None, again: bool, told: Replayed) -> tuple[list[Dead], list[Dead]]:
    """Return the next jobs to replay, so many at most, and the rows behind them; count those that are skipped on the way."""
    left: list[Dead] = []
    for place, row in enumerate(rows):
        if most is not None and len(left) >= most:
            return left, rows[place:]
        done = row.replayed_by is not None and not again
        told.steps += row.step
        told.done += not row.step and done
        if not row.step and not done:
            left.append(row)
    return left, []


def _ids(rows: Sequence[Dead]) -> str:
    return ",".join(str(row.id) for row in rows)
