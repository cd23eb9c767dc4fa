"""Take in the jobs of a claim: decode them, note their ids on the board, hand them out.

Used by the producer's thread alone. The ids are in the rings of the board before the next claim is sent, and before any of the
jobs starts; only then is the claim no longer under way. A job that cannot run here (its args do not decode, its kind has no
worker in this program) goes to the completer with its outcome. It deliberately sends no statement.
"""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fastq.events import emit
from fastq.jobs.outcome import WAITS, attempt_of, failed
from fastq.work.claim.oddities import Oddities
from fastq.work.codec.codec import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker
    from fastq.work.claim.source import Source
    from fastq.work.claim.under_way import UnderWay
    from fastq.work.codec.claimed import Claimed
    from fastq.work.shared.budget import Budget
    from fastq.work.shared.feed import Feed
    from fastq.work.shared.lane import Outbox


class Taken(NamedTuple):
    """The jobs of a claim that can run, and those that cannot run here."""

    jobs: list[Job[Any]]
    refused: list[Job[Any]]


class Surroundings(Protocol):
    """The part of the process around it that the receiver needs."""

    outbox: Outbox


class Receiver:
    """The jobs that one process has claimed, on their way from a claim to its lanes."""

    def __init__(
        self,
        around: Surroundings,
        workers: Mapping[str, Worker[Any]],
        under_way: UnderWay,
        budget: Budget,
    ) -> None:
        self.claimed = 0  # jobs so far
        self.oddities = Oddities()
        self._outbox = around.outbox
        self._workers = workers
        self._under_way = under_way
        self._budget = budget

    def take(self, source: Source, claimed: Claimed) -> Taken:
        """Decode the jobs of a claim and note their ids on the board, by mode."""
        taken, feed = Taken([], []), source.feed
        if len(claimed):
            feed.claimed += len(claimed)
            self.claimed += len(claimed)
            source.portion.brought(len(claimed), len(claimed.args))
            self._budget.took(claimed)
            taken = self._decode(source, claimed)
            if taken.refused:
                feed.lanes[0].board.claimed(_ids(taken.refused))
            for lane, mine in feed.by_lane(taken.jobs) if taken.jobs else ():
                lane.board.claimed(claimed.ids if len(mine) == len(claimed) else _ids(mine))
        if claimed.claim:
            # The rings hold these jobs now. They will run: should the turn's next statement fail, they are not to be handed back.
            self._under_way.answered()
        return taken

    def hold(self, feed: Feed, jobs: list[Job[Any]]) -> None:
        """Have the completer end jobs that the table says we run and we did not hold: from here on we hold them."""
        self.claimed += len(jobs)
        feed.lanes[0].board.claimed(_ids(jobs))
        self.hand_out(feed, Taken([], jobs), 0)

    def hand_out(self, feed: Feed, taken: Taken, low: int) -> None:
        """Put the jobs where executors find them, and those that cannot run into the outbox."""
        if taken.jobs:
            feed.put(taken.jobs, low)
        if taken.refused:
            self._outbox.jobs.extend(taken.refused)
            self._outbox.wake()

    def _decode(self, source: Source, claimed: Claimed) -> Taken:
        """Make jobs of a claim, and completions of those that cannot run here: args that do not decode, unknown kinds."""
        jobs, bad, unknown = decode(claimed, self._workers)
        claimed.forget_args()
        for job in bad:
            error: Any = job.outcome
            error.position = None  # its row in our claim means nothing to a reader: the job's id says which it is
            job.outcome = result = failed(job, f"ArgsError: {error}")
            emit("args.refused", level=logging.WARNING, id=job.id, kind=job.kind, **attempt_of(job, result), error=error)
        source.resting.met |= bool(unknown)
        for job in unknown:
            self.oddities.unknown(job.kind, job.queue, job.id)
            job.outcome = WAITS
        if jobs:
            self.oddities.look_at(jobs[0])
        return Taken(jobs, bad + unknown)


def _ids(jobs: list[Job[Any]]) -> array[int]:
    return array("q", [job.id for job in jobs])
