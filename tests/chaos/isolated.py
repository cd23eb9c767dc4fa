"""Isolated jobs that misbehave: `python -m tests.chaos.isolated --jobs 10000`.

One in a hundred crashes, leaks 200 MB, bursts its limit of memory or hangs in C; beside them run jobs that share their worker
process. The account: each job that behaves completes at its first attempt, in a process that was nobody's before; each that does
not ends for its own reason; no worker process dies or grows; no process of a job is left. It prints the rate, too.
"""

import argparse
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fastq import Args, Client
from tests.chaos.isolated_app import AloneArgs, BesideArgs, BesideAsyncArgs, HangArgs
from tests.chaos.processes import Host, descendants, title
from tests.chaos.servers import alone
from tests.helpers import execute, wait_for

BAD = ("crash", "leak", "burst", "hang")
ENDS = {"work": "completed", "leak": "completed", "crash": "discarded", "burst": "discarded", "hang": "discarded"}
ERRORS = {
    "crash": "the process of its own in which the job was executed died (signal 11)",
    "burst": "MemoryError: the job went beyond its limit of memory",
    "hang": "JobTimeout: took longer than 1 s; its process did not end, and was killed",
}
ALONE = (AloneArgs, HangArgs)
BESIDE = 10
"""One job in so many shares its worker process."""

GROWTH = 32 * 2**20
"""Bytes by which all of fastq's own processes may have grown from the first quarter of a run to its end: less than a sixth of one
leak."""

FATES = """select job.args ->> 'what', job.state::text, job.attempt, job.output, job.errors -> -1 ->> 'error', 1
    from fastq.job_archive as job where kind = any (array['chaos_alone', 'chaos_hang'])"""
SHARED = """select state::text, attempt, count(*)::int from fastq.job_archive where kind like 'chaos_beside%' group by 1, 2"""


class Memory:
    """Looks again and again at the memory of fastq's own processes: the supervisor, its fork server, workers, nurseries."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._over = threading.Event()
        self.seen: list[int] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.25):
            self.seen.append(sum(map(private, ours(self._host))))

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self._thread.join()


def ours(host: Host) -> list[int]:
    """Return the pids of all processes of the host but those of jobs."""
    return [pid for pid in [host.pid, *descendants(host.pid)] if not title(pid).startswith("fastq: job")]


def private(pid: int) -> int:
    """Return the bytes of memory that a process has and shares with none."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def seconds_of(pid: int) -> float:
    """Return the seconds of CPU that a process has taken, with those of the processes that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def drawn(dice: random.Random, count: int) -> list[Args]:
    """Draw the jobs of a run."""
    made: list[Args] = []
    for place in range(count):
        if place % 100 == 50:
            what = BAD[place // 100 % len(BAD)]
            made.append(HangArgs() if what == "hang" else AloneArgs(what))
        elif place % BESIDE == 0:
            made.append(dice.choice((BesideArgs, BesideAsyncArgs))())
        else:
            made.append(AloneArgs("work"))
    return made


def run(url: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Enqueue the jobs, have them worked, and make the account."""
    jobs = drawn(random.Random(options.seed), options.jobs)
    environment = {**os.environ, "FASTQ_DATABASE_URL": url, "FASTQ_TIMEOUT_GRACE": "0.5", "FASTQ_LOG_LEVEL": "warning"}
    host = Host(options.procs, options.threads, environment, folder, "tests.chaos.isolated_app:registry")
    try:
        wait_for(lambda: len(host.workers()) == options.procs, 30.0, "the worker processes")
        memory = Memory(host)
        began = time.monotonic()
        with Client(url) as client:
            client.enqueue_many(jobs)
        wait_for(lambda: execute(url, "select count(*) from fastq.job") == [(0,)], 600.0, "the last job to end")
        took = time.monotonic() - began
        memory.end()
        spent = sum(map(seconds_of, ours(host)))
        left = [pid for pid in descendants(host.pid) if title(pid).startswith("fastq: job ")]
        code = host.stop()
    finally:
        host.clear()
    quarter = memory.seen[len(memory.seen) // 4 :] or [0]
    grown = quarter[-1] - quarter[0]
    faults = account(url, jobs)
    said = (folder / "supervisors.log").read_text()
    faults |= {
        "died": sum(map(said.count, ("process.died", "process.recycles", "process.not_started"))),
        "left": len(left),
        "grown": int(grown > GROWTH),
        "stopped": int(code != 0),
    }
    return {
        "jobs": len(jobs),
        **{what: sum(isinstance(job, ALONE) and job.what == what for job in jobs) for what in ENDS},
        **faults,
        "seconds": round(took, 1),
        "jobs_per_s": round(len(jobs) / took),
        "cpu_ms_per_job": round(spent / len(jobs) * 1e3, 2),
        "memory_mib": round(quarter[0] / 2**20),
        "grown_mib": round(grown / 2**20, 1),
        "most_mib": round(max(quarter) / 2**20),
        "passed": not any(faults.values()),
    }


def account(url: str, jobs: list[Args]) -> dict[str, int]:
    """Hold the archive against what was enqueued; return the numbers of jobs with another end than theirs."""
    wanted = Counter(job.what for job in jobs if isinstance(job, ALONE))
    faults: Counter[str] = Counter(missing=0, wrong_ends=0, not_alone=0, neighbours=0)
    processes: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    for what, state, attempt, output, error, count in execute(url, FATES):
        seen[what] += count
        right = (state, attempt) == (ENDS[what], 1) and (error or "").startswith(ERRORS.get(what, ""))
        if not right:
            faults["wrong_ends"] += count
            print(f"{what}: {state} at attempt {attempt}: {error}", file=sys.stderr)
        if output is not None:
            faults["not_alone"] += output[0] * count
            processes[output[1]] += count
    faults["missing"] = sum((wanted - seen).values())
    beside = sum(not isinstance(job, ALONE) for job in jobs)
    faults["neighbours"] = beside - sum(
        count for state, attempt, count in execute(url, SHARED) if (state, attempt) == ("completed", 1)
    )
    return dict(faults)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.isolated", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--procs", type=int, default=2, help="worker processes")
    parser.add_argument("--threads", type=int, default=8, help="jobs at once in each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with alone() as (url, folder, _):
        figures = run(url, folder, options)
    print(json.dumps(figures))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
