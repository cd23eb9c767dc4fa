"""Statistics: turn the counts of processes into minutes, minutes into hours and hours into days, and delete the oldest days.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. Rows move by one statement, which deletes
and inserts (sql/stat_roll.sql), under the fence of the term: so each count is in one row whatever dies in between. A count that a
slow process tells of an hour that has been rolled up goes the same way, later than the others. Processes append, the leader
deletes and inserts, and nobody changes a row: while an old snapshot keeps dead rows, the table grows by those of that time.

Every INTERVAL it notes how far the seqs have come, for the waiting times (work/complete/tally.py). It deliberately does so
whether its own host counts or not (FASTQ_STATS): others may.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

INTERVAL = 5.0
"""Seconds between two notes of the seqs. Jobs that were promoted have notes of their own, so few waiting times are off by that:
those of jobs that were delayed for less, and were then handed back or let go at a gate. A statement of 0.2 ms."""

FOLD = 60.0
"""Seconds between two rounds of the rows: a minute's row is made anew once or twice."""

LIMIT = 1_000
"""Rows that one statement takes: some 50 ms, with 20 bins each."""

MINUTES, HOURS = 6 * 3_600.0, 14 * 86_400.0
"""Seconds for which minutes, and hours, are kept as such: with 100 kinds 36,000 rows of each. Guesses at how far back a person
looks minute by minute, and hour by hour."""

NOTED = 6 * 3_600.0
"""Seconds for which the notes of seqs are kept: a job that has waited for longer counts as waiting since its enqueue."""

NAP = 0.005
"""Seconds between two statements of a round, for the others; a guess."""

ROUND = ((0, 1, "minute", 0.0), (1, 2, "hour", MINUTES), (2, 3, "day", HOURS))
"""The moves of a round: from a grain to another one, the span of the new rows, and the age of the old ones."""


class Statistics:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "statistics"

    def __init__(self) -> None:
        self._move = 0  # of the present round; len(ROUND): the oldest rows are deleted; above: the round is over
        self._round_at = 0.0  # monotonic time of the next round

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Note the seqs, or do the next statement of a round."""
        if self._move < len(ROUND):
            taken, put = site.write("stat_roll", *ROUND[self._move], LIMIT)
            site.changed += put
            if taken < LIMIT:
                self._move += 1
            return NAP
        if self._move == len(ROUND):
            days, notes = site.write("stat_prune", site.config.stats_days, NOTED, LIMIT)
            site.changed += days + notes
            if max(days, notes) < LIMIT:
                self._move += 1
                self._round_at = time.monotonic() + FOLD
            return NAP
        if time.monotonic() >= self._round_at:
            self._move = 0
            return NAP
        site.write("stat_note")
        return INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
