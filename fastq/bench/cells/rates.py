"""Cells that ask for jobs per second: a backlog of jobs that do nothing, are large, wait, compute, fail, or are due at once.

Called in the main thread of the program that measures, with a stage that it owns; a cell keeps nothing between two calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.bench.cells.cell import RATE, Cell, Late
from fastq.bench.cells.speak import SLEEP, SPIN

if TYPE_CHECKING:
    from fastq.bench.cells.cell import Figures, Stage

SECONDS = 2.0
"""Seconds of work of a run: as long as the rounds of `fastq bench`."""

WIDE = 200
"""Jobs at a time of a process where they only wait."""

LEAD, FILLED_PER_S = 6.0, 15_000
"""Seconds until delayed jobs are due: for the start of programs, and for the filling at the pace of a slow system."""

LEADS = 4
"""Tries with a lead, each twice as long as the one before: a machine that is busy takes longer to start programs."""


def backlog(stage: Stage) -> Figures:
    """Work off jobs that do nothing."""
    return stage.drained("noop", stage.size(SECONDS)).figures()


def large(stage: Stage) -> Figures:
    """Work off jobs with twelve fields, 1 kB."""
    return stage.drained("large", stage.size(SECONDS / 2)).figures()


def sleep(stage: Stage) -> Figures:
    """Work off jobs that wait, with the share of the rate at which every slot is always taken."""
    return _of_ideal(stage, "sleep", WIDE, stage.system.procs * WIDE / SLEEP)


def nap(stage: Stage) -> Figures:
    """Do the same by functions that block, in threads, where the system knows both."""
    return _of_ideal(stage, "nap", WIDE, stage.system.procs * WIDE / SLEEP)


def cpu(stage: Stage) -> Figures:
    """Work off jobs that compute, with the share of the rate at which they have all of the cores that there are processes for."""
    return _of_ideal(stage, "cpu", 0, stage.system.procs / SPIN)


def _of_ideal(stage: Stage, job: str, slots: int, ideal: float) -> Figures:
    run = stage.drained(job, stage.size(SECONDS, ideal), slots=slots)
    return run.figures() | {"ideal_percent": run.jobs_per_s / ideal * 100}


def retry(stage: Stage) -> Figures:
    """Work off jobs that fail once, and then do nothing."""
    return stage.drained("fail", stage.size(SECONDS / 8)).figures()


def delay(stage: Stage) -> Figures:
    """Work off jobs that are all due at one moment, from that on."""
    jobs = stage.size(SECONDS / 2)
    lead = LEAD + jobs / FILLED_PER_S
    for _ in range(LEADS - 1):
        try:
            return stage.drained("noop", jobs, lead=lead).figures()
        except Late:
            lead *= 2
    return stage.drained("noop", jobs, lead=lead).figures()


IDEAL = {**RATE, "ideal_percent": "of the rate at which no slot ever waits for a job"}

BACKLOG = Cell("backlog", "jobs that do nothing, in one queue", RATE, backlog)
LARGE = Cell("large", "the same with args of 1 kB in twelve fields", RATE, large)
SLEEPING = Cell("sleep", "jobs that wait 5 ms, 200 at a time in each process", IDEAL, sleep)
NAPPING = Cell("nap", "the same by functions that block, in threads", IDEAL, nap)
COMPUTING = Cell("cpu", "jobs that take 1 ms of CPU", IDEAL, cpu)
FAILING = Cell("retry", "jobs that fail once and are tried again at once", RATE, retry)
DELAYED = Cell("delay", "jobs that are due at one moment", RATE, delay)
