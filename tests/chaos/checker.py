"""Hold what the database says against what the jobs and the faults say. Pure functions of the four lists; no processes here.

    I1  every job whose enqueueing was acknowledged ended once, in the archive; a completed one was executed to its end in
        the very attempt that is stored there; nothing is left among the living
    I2  nothing ran that was not committed
    I3  each start of a job beyond its first is explained: the process of the start before it was killed after that start,
        or that start ended with an error that is on record
    I4  two executions of a job do not overlap, unless the process of the earlier one was dead
    I5  no attempt beyond max_attempts; an attempt counts only where there was a start, or an error on record says why not

What cannot be explained is a fault of the project, so the rules lean to its disfavour: an error on record explains nothing
while the process that ran the job lived on and its execution did not fail.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.ledger import FAILED, START, Record

FINAL = {"completed", "cancelled", "discarded"}
FLUSH_BOUND = 5_000_000_000
"""Nanoseconds between the end of a job and its process's death, beyond which "not yet written" is no explanation: it is
written within milliseconds; Postgres itself may be slow on a busy machine."""


class Row(NamedTuple):
    """What the archive says of a job."""

    job: int
    state: str
    attempt: int
    max_attempts: int
    errors: frozenset[int] = frozenset()  # the attempts with an error on record


@dataclass(frozen=True)
class Fault:
    """One fault that was injected: who was killed, and when everybody who had to die with it was seen dead."""

    target: str  # worker or supervisor
    at: int  # nanoseconds, just before the signal
    pid: int
    gone: Mapping[int, int] = field(default_factory=dict)  # when each was seen dead: the victim, all its descendants


class Death(NamedTuple):
    """How a process ended, in nanoseconds: the fault, the time from which it ran no more, and when it was seen dead."""

    at: int
    over: int
    seen: int


@dataclass
class Execution:
    """One start of a job and how it went on. `end` is None if it was cut off."""

    job: int
    attempt: int
    pid: int
    start: int
    end: int | None = None
    failed: bool = False


@dataclass
class Evidence:
    """Everything that is known of a run."""

    acknowledged: Sequence[int]
    rolled_back: Sequence[int]
    left: Sequence[int]  # ids still among the living jobs
    rows: Sequence[Row]
    records: Sequence[Record]
    faults: Sequence[Fault]


@dataclass
class Verdict:
    """What came out. `problems` tells about the first of each list in words."""

    lost: list[int] = field(default_factory=list)  # I1
    never_committed: list[int] = field(default_factory=list)  # I2
    unexplained: list[int] = field(default_factory=list)  # I3, one entry per start
    overlapping: list[int] = field(default_factory=list)  # I4
    miscounted: list[int] = field(default_factory=list)  # I5
    explained: int = 0  # starts beyond the first that a death explains
    unflushed: int = 0  # those among them whose execution had ended before the death
    retried: int = 0  # starts beyond the first after an error of the job itself
    recovery: dict[str, list[float]] = field(default_factory=lambda: {"worker": [], "supervisor": []})  # seconds
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Tell whether nothing is wrong."""
        return not (self.lost or self.never_committed or self.unexplained or self.overlapping or self.miscounted)

    def blame(self, jobs: list[int], job: int, why: str) -> None:
        """Enter a job in one of the lists and say why."""
        jobs.append(job)
        if len(self.problems) < 50:
            self.problems.append(f"job {job}: {why}")


def check(evidence: Evidence) -> Verdict:
    """Check all invariants."""
    verdict = Verdict()
    executions = executions_by_job(evidence.records)
    deaths = deaths_by_pid(evidence.faults)
    rows = {row.job: row for row in evidence.rows}
    _check_ends(evidence, executions, verdict)
    known = set(evidence.acknowledged)
    for job, runs in executions.items():
        if job not in known:
            verdict.blame(verdict.never_committed, job, "it ran, and nobody was told that it was enqueued")
            continue
        errors = rows[job].errors if job in rows else frozenset()
        for before, after in pairwise(runs):
            _check_again(before, after, errors, deaths, verdict)
    for row in evidence.rows:
        _check_attempts(row, executions.get(row.job, []), verdict)
    return verdict


def executions_by_job(records: Iterable[Record]) -> dict[int, list[Execution]]:
    """Put starts and ends together; each job's executions in the order of their starts."""
    by_job: dict[int, list[Execution]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.at):
        if record.what == START:
            by_job[record.job].append(Execution(record.job, record.attempt, record.pid, record.at))
            continue
        run = next(
            run for run in reversed(by_job[record.job]) if (run.pid, run.attempt, run.end) == (record.pid, record.attempt, None)
        )
        run.end, run.failed = record.at, record.what == FAILED
    return by_job


def deaths_by_pid(faults: Iterable[Fault]) -> dict[int, list[Death]]:
    """Return the deaths of every process that died of a fault; a pid may come again."""
    deaths: dict[int, list[Death]] = defaultdict(list)
    for fault in sorted(faults, key=lambda fault: fault.at):
        for pid, gone in fault.gone.items():
            # The signal stops the victim, and whoever sent it may be kept from the clock afterwards, so the time before it
            # counts. The children of a killed supervisor live on for a moment: there, when they were seen dead.
            deaths[pid].append(Death(fault.at, fault.at if pid == fault.pid else gone, gone))
    return deaths


def death_after(run: Execution, deaths: Mapping[int, list[Death]]) -> Death | None:
    """Return the death of the process that ran this."""
    return next((death for death in deaths.get(run.pid, ()) if death.seen >= run.start), None)


def _check_ends(evidence: Evidence, executions: Mapping[int, list[Execution]], verdict: Verdict) -> None:
    rows: dict[int, Row] = {}
    for row in evidence.rows:
        if row.job in rows:
            verdict.blame(verdict.lost, row.job, "it ended twice")
        rows[row.job] = row
    left = set(evidence.left)
    for job in evidence.acknowledged:
        end = rows.get(job)
        if job in left:
            verdict.blame(verdict.lost, job, "it is still among the living")
        elif end is None:
            verdict.blame(verdict.lost, job, "it is neither among the living nor in the archive")
        elif end.state not in FINAL:
            verdict.blame(verdict.lost, job, f"it is {end.state} in the archive")
        elif end.state == "completed":
            if not any(run.end and not run.failed and run.attempt == end.attempt for run in executions.get(job, ())):
                verdict.blame(verdict.lost, job, f"it completed in attempt {end.attempt}, and no such attempt came to its end")
        elif not end.errors:
            verdict.blame(verdict.lost, job, f"it was {end.state} without a reason")
    for job in {*evidence.rolled_back} & {*rows, *left}:
        verdict.blame(verdict.never_committed, job, "its transaction was rolled back, and it is there")


def _check_again(
    before: Execution,
    after: Execution,
    errors: frozenset[int],
    deaths: Mapping[int, list[Death]],
    verdict: Verdict,
) -> None:
    """Look for the reason why a job was started again, and whether its earlier execution was over."""
    death = death_after(before, deaths)
    over = before.end if before.end is not None else (death.over if death else math.inf)
    if after.start < over:
        verdict.blame(verdict.overlapping, after.job, f"process {after.pid} started it while process {before.pid} was at it")
    if before.failed and before.attempt in errors:
        verdict.retried += 1
    elif death and death.at <= after.start and (before.end is None or death.seen - before.end <= FLUSH_BOUND):
        verdict.explained += 1
        verdict.unflushed += before.end is not None
    else:
        why = "nothing happened to" if death is None else "the later death does not explain"
        verdict.blame(
            verdict.unexplained, after.job, f"started again in {after.pid}, and {why} {before.pid}, which had it before"
        )


def _check_attempts(row: Row, runs: Sequence[Execution], verdict: Verdict) -> None:
    if row.attempt > row.max_attempts:
        verdict.blame(verdict.miscounted, row.job, f"attempt {row.attempt} of {row.max_attempts}")
    for attempt in range(1, row.attempt + 1):
        if attempt not in row.errors and not any(run.attempt == attempt for run in runs):
            verdict.blame(verdict.miscounted, row.job, f"attempt {attempt} was charged and never started")


def measure_recovery(evidence: Evidence, verdict: Verdict) -> None:
    """Enter for each kill how long each job that it cut off had to wait for its next start."""
    executions = executions_by_job(evidence.records)
    deaths = deaths_by_pid(evidence.faults)
    target = {fault.at: fault.target for fault in evidence.faults}
    for runs in executions.values():
        for before, after in pairwise(runs):
            death = death_after(before, deaths)
            if before.end is None and death is not None:
                verdict.recovery[target[death.at]].append((after.start - death.at) / 1e9)


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` of all do not exceed; None if there are none."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None
