"""Two leaders at once, each sure of itself: the second line of defence, without the first.

As a program (`python -m tests.chaos.two_leaders a`) it is a leader of nobody's choosing: it stands for leases of its own, which
nobody disputes, and does the chores of the default domain and of the schema under them, over all queues. Two of them run while
jobs are scheduled, fail and are retried, worker processes and whole hosts are killed, and schedules tick (run.py accounts for the
jobs).
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from fastq import log
from fastq.config import Config
from fastq.host.listener import Listener
from fastq.lead.maintainer import WOKEN, domain_chores, schema_chores
from fastq.lead.term.term import Term
from fastq.leases.elector import Candidacy, Elector
from tests.chaos import run as chaos
from tests.chaos.processes import ROOT
from tests.chaos.result import Result
from tests.helpers import execute, wait_for

EVERY = 1.5  # mean seconds between two kills
SCHEDULES = 3
MANY = 4  # hosts: that none of so many had a job at work is no chance
JOBS_PER_SECOND = 400  # so that some jobs are at work whenever a host is lost

CHARGED_TWICE = """select count(*) from (
    select id from fastq.job_archive cross join lateral jsonb_array_elements(errors) as error
    group by id, error ->> 'attempt' having count(*) > 1) as job"""
"""Jobs with two errors of the same attempt."""

TICKS = """select name, count(*), count(distinct tick), round(extract(epoch from max(tick) - min(tick)))::integer + 1
    from fastq.periodic_tick group by name order by name"""
JOBS_OF_TICKS = """with job (id) as (
    select id from fastq.job where kind = 'chaos_tick' union all select id from fastq.job_archive where kind = 'chaos_tick'
) select count(*), count(distinct id), (select count(*) from fastq.periodic_tick where job_id in (select id from job)) from job"""
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
WORK = "select lease, name, changed from fastq.chore where lease like 'leader:%'"


def run(url: str, folder: Path, seconds: float, seed: int = 1) -> Result:
    """Let two leaders work for so long."""
    supervisors = max(1, round(seconds / EVERY / 5))
    kills = max(2, round(seconds / EVERY) - supervisors)
    plan = chaos.Plan(round(seconds * JOBS_PER_SECOND), kills, supervisors, seed=seed, every=EVERY, whole_hosts=True)
    settings = {"FASTQ_LEAD": "off", "CHAOS_PERIODIC": str(SCHEDULES)}
    result = Result("two leaders", kills + supervisors)
    with ExitStack() as stack:
        leaders = [stack.enter_context(Leader(url, name, folder)) for name in ("a", "b")]
        figures = chaos.run(plan, url, folder, settings)
        result.problems += [] if figures["passed"] else [f"jobs: {figures['problems'] or figures}"]
        result.problems += [f"leader {leader.name} has ended" for leader in leaders if not leader.alive]
    check_ticks(url, result)
    ((twice,),) = execute(url, CHARGED_TWICE)
    ((deadlocks,),) = execute(url, DEADLOCKS)
    result.figures |= {"seconds": round(figures["seconds"]), "jobs": figures["completed"], "kills": kills + supervisors}
    result.figures |= {"charged twice": twice, "deadlocks": deadlocks}
    result.problems += [f"{twice} jobs were charged twice for an attempt"] if twice else []
    result.problems += [f"{deadlocks} deadlocks"] if deadlocks else []
    changed = {(lease, name): changed for lease, name, changed in execute(url, WORK)}
    for lease in ("leader:a", "leader:b"):
        for chore in ("promote", "periodic", "rescue"):
            result.figures[f"{lease.removeprefix('leader:')} {chore}"] = changed.get((lease, chore), 0)
        if not changed.get((lease, "promote")):
            result.problems.append(f"{lease} promoted nothing: these were not two leaders")
    if supervisors >= MANY and not any(changed.get((lease, "rescue")) for lease in ("leader:a", "leader:b")):
        result.problems.append(f"{supervisors} hosts were lost, and nothing was rescued: this run shows less than it should")
    return result


def check_ticks(url: str, result: Result) -> None:
    """See that each schedule has one row per tick and none missing, and that each row has its one job."""
    ticks = execute(url, TICKS)
    ((jobs, distinct, known),) = execute(url, JOBS_OF_TICKS)
    rows = sum(int(str(count)) for _, count, _, _ in ticks)
    different = sum(int(str(count)) for _, _, count, _ in ticks)
    missing = sum(int(str(span)) for _, _, _, span in ticks) - different
    result.figures |= {"ticks": rows, "missing ticks": missing, "doubled ticks": int(str(jobs)) - different}
    if not ticks:
        result.problems.append("nothing has ticked")
    if not jobs == distinct == known == rows == different or missing:
        told = f"{rows} rows of {different} ticks, {jobs} jobs ({distinct} different, {known} known by a tick), {missing} missing"
        result.problems.append(f"ticks: {told}")


class Leader:
    """A process that leads whether it should or not."""

    def __init__(self, url: str, name: str, folder: Path) -> None:
        self.name = name
        self._log = folder / f"leader-{name}.log"
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.two_leaders", name],
                cwd=ROOT,
                env={**os.environ, **chaos.SETTINGS, "FASTQ_DATABASE_URL": url},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        wait_for(lambda: "lease.acquired" in self._log.read_text(), 30, f"leader {name}, see {self._log}")

    @property
    def alive(self) -> bool:
        """Tell whether it leads still."""
        return self._process.poll() is None and "lease.lost" not in self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def lead(name: str) -> None:
    """Lead until SIGTERM."""
    config = Config.load()
    log.set_up(config)
    terms: list[Term] = []

    def candidacy(lease, make_chores) -> Candidacy:
        def begin(fence, trust) -> None:
            terms.append(Term(config, config.database_url, fence, trust, lambda: make_chores(config), elector.resign))
            terms[-1].start()

        def end(fence, reason) -> None:
            for term in terms:
                if term.fence == fence:
                    term.end(reason)

        return Candidacy(f"{lease}:{name}", begin, end)

    def wake(chore: str, _: str) -> None:
        for term in terms:
            term.wake(chore)

    elector = Elector(config, config.database_url, [candidacy("leader", domain_chores), candidacy("schema", schema_chores)])
    hears = {hint: [partial(wake, chore)] for hint, chore in WOKEN.items()}
    listener = Listener(config, config.database_url, hears, lambda: None)
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: asked.set())
    elector.start()
    listener.start()
    asked.wait()
    listener.finish(0.0)
    elector.stop()
    wait_for(lambda: elector.ended and all(term.ended for term in terms), 10, "the end of the terms")


if __name__ == "__main__":
    lead(sys.argv[1])
