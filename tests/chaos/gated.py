"""Gates under fire: `python -m tests.chaos.gated --jobs 100000 --kills 200 --leader-kills 20 --server-kills 5`.

Two hosts work jobs of a thousand keys with limits of 1 to 20, and jobs in order, while worker processes, leading supervisors and
the server are killed. The server forgets the commits that did not wait for the disk, among them admissions of jobs. A ledger
beside the database says when each attempt began and ended, and the account is made of that: never more at once at a key than
its limit, no job of an order before the one in front of it has ended, every job done. An attempt without an end ended when its
process was killed.
"""

import argparse
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fastq import Client
from tests.chaos import ledger
from tests.chaos.checker import Fault
from tests.chaos.gated_app import KINDS, LIMITS
from tests.chaos.processes import Host
from tests.chaos.servers import alone
from tests.helpers import execute, wait_for

KEYS = 50  # of each of the twenty limits
ORDERS = 20  # keys of the order
BATCH = 500  # jobs of one enqueue
AHEAD = 5_000  # jobs that wait at most: keys come and go, and each dead leader leaves some behind
HOLDER = "select holder from fastq.lease where name = 'schema' and expires_at > clock_timestamp()"
STATES = "select state::text, count(*) from fastq.job_archive group by 1"


Name = tuple[int, int]
"""The limit, 0 for the order, and the key."""


class Attempt(NamedTuple):
    """One run of a job, in nanoseconds of the ledger."""

    began: int
    ended: int
    job: int


def attempts(records: Iterable[ledger.Record], faults: Iterable[Fault]) -> list[Attempt]:
    """Return all attempts; one without an end ended when its process was killed, at the latest when that was gone."""
    killed = {pid: fault.at for fault in faults for pid in (fault.pid, *fault.gone)}
    began: dict[tuple[int, int, int], int] = {}
    found, last = [], {}
    for record in records:
        name = (record.pid, record.job, record.attempt)
        last[record.pid] = max(last.get(record.pid, 0), record.at)
        if record.what == ledger.START:
            began[name] = record.at
        else:
            found.append(Attempt(began.pop(name), record.at, record.job))
    found += [Attempt(at, max(at, killed.get(pid, 0), last[pid]), job) for (pid, job, _), at in began.items()]
    return found


def most_at_once(runs: list[Attempt]) -> int:
    """Return how many attempts there were at once at most."""
    running = most = 0
    for _, change in sorted([moment for run in runs for moment in ((run.began, 1), (run.ended, -1))]):
        running += change
        most = max(most, running)
    return most


def overtaken(runs: list[Attempt]) -> int:
    """Count the jobs of one key that began before one that was enqueued before them had ended."""
    found, end = 0, 0
    by_job: dict[int, list[Attempt]] = defaultdict(list)
    for run in runs:
        by_job[run.job].append(run)
    for job in sorted(by_job):
        found += min(run.began for run in by_job[job]) < end
        end = max(end, *(run.ended for run in by_job[job]))
    return found


class Fire:
    """Kills worker processes, leading supervisors and the server, as planned, whenever it is asked."""

    def __init__(self, url: str, hosts: list[Host], options: argparse.Namespace, crash: Callable[[], None]) -> None:
        self._url, self._hosts, self._crash = url, hosts, crash
        self._dice = random.Random(options.seed)
        self.plan = ["worker"] * options.kills + ["leader"] * options.leader_kills + ["server"] * options.server_kills
        self._dice.shuffle(self.plan)
        self.done = {"worker": 0, "leader": 0, "server": 0}

    def strike(self) -> None:
        """Kill the next one of the plan."""
        what = self.plan.pop()
        if what == "worker":
            self._dice.choice(self._hosts).kill_worker(self._dice)
        elif what == "server":
            self._crash()
        else:
            wait_for(self._leader, 30.0, "a host that leads").kill_supervisor()
        self.done[what] += 1

    def _leader(self) -> Host | None:
        """Return the host that leads; None while the lease is nobody's, or that of a supervisor that was killed just now."""
        holders = execute(self._url, HOLDER)
        return next((host for host in self._hosts for (holder,) in holders if f":{host.pid}:" in holder), None)


def enqueue(client: Client, dice: random.Random, jobs: int, longest: float, of: dict[int, Name]) -> None:
    """Enqueue some jobs; note the limit and the key of each."""
    drawn = [
        (0, dice.randrange(ORDERS)) if dice.random() < 0.02 else (dice.choice(LIMITS), dice.randrange(KEYS)) for _ in range(jobs)
    ]
    batch = [KINDS[limit](key, dice.random() ** 4 * longest) for limit, key in drawn]
    of.update(zip(client.enqueue_many(batch), drawn, strict=True))


def run(url: str, folder: Path, options: argparse.Namespace, crash: Callable[[], None]) -> dict[str, Any]:
    """Enqueue, kill, wait, and make the account; `crash` ends the server without ceremony and starts it again."""
    dice, of, began = random.Random(options.seed), {}, time.monotonic()
    hosts = []
    for place in range(2):
        ledgers = folder / f"host-{place}"
        ledgers.mkdir()
        environment = {**os.environ, "FASTQ_DATABASE_URL": url, "CHAOS_LEDGER": str(ledgers), "FASTQ_LEASE_TTL": "3"}
        hosts.append(Host(options.procs // 2, options.threads, environment, ledgers, "tests.chaos.gated_app:registry"))
    try:
        fire = Fire(url, hosts, options, crash)
        strikes = len(fire.plan)
        with Client(url) as client:
            while len(of) < options.jobs or fire.plan:
                left = execute(url, "select count(*) from fastq.job")[0][0]
                if len(of) < options.jobs and left < AHEAD:
                    enqueue(client, dice, min(BATCH, options.jobs - len(of)), options.longest, of)
                progress = (len(of) - left) / options.jobs
                if fire.plan and progress >= 1 - len(fire.plan) / strikes:
                    fire.strike()
                elif left >= AHEAD or len(of) == options.jobs:
                    time.sleep(0.02)
        wait_for(lambda: execute(url, "select count(*) from fastq.job") == [(0,)], 300.0, "the last job to end")
        codes = [host.stop() for host in hosts]
    finally:
        for host in hosts:
            host.clear()
    return account(url, folder, hosts, of) | {
        "seconds": round(time.monotonic() - began, 1),
        "killed": fire.done,
        "stopped": codes,
        "seed": options.seed,
    }


def account(url: str, folder: Path, hosts: list[Host], of: dict[int, Name]) -> dict[str, Any]:
    """Hold the ledger against the limits."""
    runs: dict[Name, list[Attempt]] = defaultdict(list)
    for place, host in enumerate(hosts):
        for one in attempts(ledger.read(folder / f"host-{place}"), host.faults):
            runs[of[one.job]].append(one)
    most = {name: most_at_once(found) for name, found in runs.items()}
    ended = {one.job for found in runs.values() for one in found}
    said = "".join(path.read_text() for path in folder.glob("*/supervisors.log"))
    figures: dict[str, Any] = {
        "jobs": len(of),
        "attempts": sum(map(len, runs.values())),
        "keys": len(runs),
        "keys_over_limit": sum(at_once > max(limit, 1) for (limit, _), at_once in most.items()),
        "keys_at_limit": sum(at_once == max(limit, 1) for (limit, _), at_once in most.items()),
        "overtaken": sum(overtaken(found) for (limit, _), found in runs.items() if not limit),
        "never_started": len(of.keys() - ended),
        "permits_left": execute(url, "select count(*) from fastq.gate_permit")[0][0],
        "repaired": said.count("gate.repaired"),
        "states": dict(execute(url, STATES)),
    }
    bad = ("keys_over_limit", "overtaken", "never_started", "permits_left", "repaired")
    return figures | {"passed": not any(figures[name] for name in bad) and figures["states"] == {"completed": len(of)}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.gated", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20, help="worker processes to SIGKILL")
    parser.add_argument("--leader-kills", type=int, default=2, help="leading supervisors to SIGKILL")
    parser.add_argument("--server-kills", type=int, default=1, help="crashes of Postgres")
    parser.add_argument("--procs", type=int, default=16, help="worker processes, on two hosts")
    parser.add_argument("--threads", type=int, default=4, help="of each worker process")
    parser.add_argument("--longest", type=float, default=0.1, help="seconds that a job naps; most nap for much less")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with alone() as (url, folder, crash):
        figures = run(url, folder, options, crash)
    print(json.dumps(figures))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
