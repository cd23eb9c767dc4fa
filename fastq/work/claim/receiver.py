"""Take in the jobs of a claim: decode them, note their ids on the board, hand them out.

The main thread of a worker process makes a `Receiver`; from then on the producer's thread alone uses it and writes it. The ids
are in the rings of the board before the next claim is sent, and before any of the jobs starts; only then is the claim no longer
under way. A job that cannot run here (its args do not decode, its kind has no worker in this program) goes to the completer with
its outcome. It deliberately sends no statement.
"""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING, Any, Protocol

from fastq.args.options import DEFAULT_MAX_ATTEMPTS
from fastq.args.versions.names import unpaused
from fastq.events import emit
from fastq.jobs.outcome import WAITS, Barred, attempt_of, failed
from fastq.texts import told
from fastq.work.claim.oddities import Oddities
from fastq.work.codec.codec import Decoded, Jobs, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker
    from fastq.work.claim.sources import Source
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.claims import UnderWay
    from fastq.work.shared.lane import Feed, Outbox


class Surroundings(Protocol):
    """The attribute of `Process` (work/process.py) that the receiver needs; its main thread has set it before, once."""

    outbox: Outbox


NOTHING = Decoded([], [], [], [])


class Receiver:
    """The jobs that one process has claimed, on their way from a claim to its lanes."""

    def __init__(
        self,
        around: Surroundings,
        workers: Mapping[str, Worker[Any]],
        under_way: UnderWay,
        choose: Callable[[Jobs], object] | None = None,
    ) -> None:
        self.claimed = 0  # jobs so far; the producer reads it
        self.oddities = Oddities()
        self._states = any(worker.max_attempts not in (None, DEFAULT_MAX_ATTEMPTS) for worker in workers.values())
        self._outbox = around.outbox
        self._known = workers
        self._workers = workers  # without those of paused kinds
        self._under_way = under_way
        self._choose = choose  # has some of the jobs timed

    def pause(self, paused: frozenset[str]) -> None:
        """Take jobs of these kinds for such as have no worker here."""
        self._workers = {name: self._known[name] for name in unpaused(self._known, paused)}

    def unknown(self, kind: str, queue: str, job: int) -> None:
        """Report a job of a kind without a worker here, unless it is that the kind is paused."""
        if kind not in self._known:
            self.oddities.unknown(kind, queue, job)

    def take(self, source: Source, claimed: Claimed) -> list[Job[Any]]:
        """Decode the jobs of a claim and note their ids on the board; return those that can run, which are to be handed out."""
        made = NOTHING
        if claimed.ids:
            self.claimed += len(claimed.ids)
            source.demand.brought(claimed)
            for priority, seq in claimed.last_seqs.items():
                source.reached[priority - 1] = max(source.reached[priority - 1], seq)
            made = decode(claimed, self._workers, choose=self._choose)
            claimed.args = claimed.kinds = b""  # a job that runs for hours keeps its claim, but needs no neighbour's args
            if self._states and made.good:
                self.oddities.look_at(made.good[0])
            lanes = source.feed.lanes
            if len(lanes) == 1:
                lanes[0].board.claimed(claimed.ids)
            else:
                _note_by_lane(source.feed, claimed, made)
        if claimed.claim:
            # The rings hold these jobs now. They will run: should the turn's next statement fail, they are not to be handed back.
            self._under_way.answered()
        if len(made.good) < len(claimed.ids):
            self._refuse(source, made)
        return made.good

    def hold(self, feed: Feed, jobs: list[Job[Any]]) -> None:
        """Have the completer end jobs that the table says we run and we did not hold: from here on we hold them."""
        self.claimed += len(jobs)
        feed.lanes[0].board.claimed(_ids(jobs))
        self._complete(jobs)

    def _refuse(self, source: Source, made: Decoded) -> None:
        """Make completions of the jobs that cannot run here: bad args, unknown kinds, gates that were passed by."""
        for job in made.bad:
            error: Any = job.outcome
            error.position = None  # its row in our claim means nothing to a reader: the job's id says which it is
            job.outcome = result = failed(job, f"ArgsError: {error}")
            emit("args.refused", level=logging.WARNING, id=job.id, kind=job.kind, **attempt_of(job, result), error=error)
        source.resting.met |= bool(made.unknown)
        for job in made.unknown:
            batch: Any = job.batch
            self.unknown(batch.asks_for, job.queue, job.id)
            job.outcome = WAITS
        for job in made.barred:
            self.oddities.ungated(job)
            job.outcome = _barred(job)
        self._complete(made.bad + made.unknown + made.barred)

    def _complete(self, jobs: list[Job[Any]]) -> None:
        self._outbox.jobs.extend(jobs)
        self._outbox.wake()


def _note_by_lane(feed: Feed, claimed: Claimed, made: Decoded) -> None:
    """Note the ids of a claim on the board where the queue has several lanes; jobs that cannot run stand with the first."""
    if refused := made.bad + made.unknown + made.barred:
        feed.lanes[0].board.claimed(_ids(refused))
    for lane, mine in feed.by_lane(made.good):
        lane.board.claimed(claimed.ids if len(mine) == len(claimed.ids) else _ids(mine))


def _barred(job: Job[Any]) -> object:
    try:
        return Barred(job.batch.worker.kind.gates_of(job.args, job.queue))
    except Exception as error:  # noqa: BLE001 - a function of the user's says which key the job has
        return failed(job, f"its gates could not be told: {told(error)}")


def _ids(jobs: list[Job[Any]]) -> array[int]:
    return array("q", [job.id for job in jobs])
