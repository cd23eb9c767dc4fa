"""Notice that this process did not run for so long that others may have its jobs by now; let go of those that have not started.

A host that is frozen (a suspended machine, a paused container, SIGSTOP) gives no sign of life. Once its rows have run out, its
jobs are started elsewhere; when it thaws, its executors would start the jobs in their inboxes. The main thread of a worker
process ticks all the time, so a long gap between two ticks shows it, on a clock that goes on while the machine is suspended. Jobs
that have not started are then handed back, uncharged: if another process has a job by now, that changes nothing, for its claim is
another one.

    tick      by the main thread, first thing after each wait
    let_go    by the producer's too, where a gap came during its round: jobs claimed before the gap may have come after the tick

It costs the executors neither a clock nor anything else. So those that get the interpreter before the main thread start a job
each, and short ones for a switch interval (5 ms) at most; their outcomes change nothing in the database either.
The main thread alone writes here; the producer's reads `times`. It deliberately does not end executing jobs: they have begun, and
nobody can take them back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.leases.lease import boottime
from fastq.service import Service

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.work.shared.held import Held

SHARE = 1 / 3
"""Of the time to live: so much of it is left, as it is meant, when two beats were lost before the gap began. A job that holds the
interpreter for so long makes the same gap in a process that is well; then jobs are handed back that need not be."""


class Away(Service):
    """The absences of one process. The main thread makes it and alone writes its attributes."""

    def __init__(self, config: Config, held: Held) -> None:
        self.times = 0  # that it was away; written by the main thread, read by the producer's
        self._limit = SHARE * config.process_ttl
        self._held = held
        self._ticked_at = boottime()

    def tick(self) -> None:
        """Look how long ago the last tick was."""
        now = boottime()
        gap, self._ticked_at = now - self._ticked_at, now
        if gap > self._limit:
            self.times += 1
            self.let_go(gap)

    def let_go(self, gap: float | None = None) -> None:
        """Let go of the jobs that have not started, after a gap of so many seconds."""
        count = self._held.let_go()
        if count:
            seconds = None if gap is None else round(gap, 1)
            emit("process.away", level=logging.WARNING, seconds=seconds, handed_back=count)
