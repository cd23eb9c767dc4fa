"""Take the jobs that have not started out of their inboxes when a worker process stops.

A part of the process's list (process.py), between the producer, which puts jobs in and ends before, and the modes, which take
them out and stop afterwards. Runs in the main thread alone. It deliberately hands nothing back: the process does, once all parts
have stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.service import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.jobs.job import Job
    from fastq.work.shared.lane import Feed


class Inboxes(Service):
    """The jobs that have not started: the main thread takes them out after the producer's end, before the modes stop."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds = feeds
        self._drained: list[Job[Any]] = []

    def stop(self) -> float:
        """Take all waiting jobs out."""
        self._drained += [job for feed in self._feeds for job in feed.drain()]
        return 0.0

    def drained(self) -> list[Job[Any]]:
        """Return the jobs that were taken out since the last call: they are to be handed back."""
        jobs, self._drained = self._drained, []
        return jobs
