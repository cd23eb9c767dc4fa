"""Effects exactly once, under fire: `python -m tests.chaos.effects --kills 300`.

Two hosts work jobs that append numbers to lists in the transactions in which they end (effects_app.py), by psycopg and by
SQLAlchemy, in threads and in coroutines. Meanwhile worker processes and supervisors are killed, the server crashes, jobs are
taken away from their processes as a rescue does it, and connections are cut at their COMMIT: before it arrives, while it is
carried out, and when its answer is on its way. The account is made of the lists: each number once in each list it belongs to, no
other, no cycle (history.py), each child once.
"""

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from fastq import Client
from fastq.schema.migrate import migrate
from tests.chaos.effects_app import KINDS, STAGES, TABLES
from tests.chaos.history import Reading, judge
from tests.chaos.processes import Host
from tests.chaos.servers import Servers, scratch
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

KEYS = 200
BATCH, AHEAD = 200, 600  # jobs of one enqueue; jobs that there are at least, while there is more to strike
REST = 0.5  # seconds between two faults, at most
WAYS = ("before", "after", "answer")
STEAL = """
update fastq.job set state = 'available', seq = nextval('fastq.job_seq'), claim = null
where id in (select id from fastq.job where state = 'running' order by random() limit %s for update skip locked)
returning id
"""
PATIENCE = 300.0
SETTINGS = {
    "FASTQ_LEASE_TTL": "3",
    "FASTQ_MAX_CRASHES": "100",  # nobody's fault here
    "FASTQ_POLL_INTERVAL": "0.2",
    "FASTQ_STATEMENT_TIMEOUT": "5",
}


class Wire:
    """The dice by which connections are cut at their COMMITs."""

    def __init__(self, share: float, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._share, self._dice = share, random.Random(seed)

    def __call__(self, chunk: bytes) -> str | None:
        """Say where to cut, if at all."""
        if b"COMMIT" not in chunk or self._dice.random() >= self._share:
            return None
        way = self._dice.choice(WAYS)
        self.done[way] += 1
        return way


class Fire:
    """The faults of the plan, one whenever it is asked."""

    def __init__(self, url: str, servers: Servers | None, hosts: list[Host], options: argparse.Namespace) -> None:
        self._url, self._servers, self._hosts, self._dice = url, servers, hosts, random.Random(options.seed)
        faults: dict[Callable[[], object], int] = {
            self._kill_worker: options.kills,
            self._kill_supervisor: options.supervisor_kills,
            self._steal: options.thefts,
            self._crash: options.crashes if servers is not None else 0,
        }
        self.plan = [fault for fault, times in faults.items() for _ in range(times)]
        self._dice.shuffle(self.plan)
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """Let the next fault happen."""
        fault = self.plan.pop()
        fault()
        self.done[fault.__name__.lstrip("_")] += 1

    def _kill_worker(self) -> None:
        busy = wait_for(lambda: [host for host in self._hosts if host.busy()], PATIENCE, "a process that executes jobs")
        self._dice.choice(busy).kill_worker(self._dice, busy=True)

    def _kill_supervisor(self) -> None:
        self._dice.choice(self._hosts).kill_supervisor()

    def _steal(self) -> None:
        self.done["stolen"] += len(execute(self._url, STEAL, 4))

    def _crash(self) -> None:
        assert self._servers is not None
        self._servers.crash()


def enqueue(client: Client, dice: random.Random, jobs: int, expected: dict[int, list[int]], parents: set[int]) -> None:
    """Enqueue some jobs; note the numbers that each is to append, and where."""
    drawn = []
    for _ in range(jobs):
        keys = sorted(dice.sample(range(KEYS), dice.randint(1, 4)))
        seconds = dice.random() ** 3 * 0.02
        drawn.append(dice.choice(KINDS)(keys, dice.choice((1, 1, 1, 2, 3)), dice.random() < 0.2, seconds))
    with_ids = zip(client.enqueue_many(drawn), drawn, strict=True)
    for id_, args in with_ids:
        for stage in range(1, args.stages + 1):
            expected[id_ * STAGES + stage] = args.keys
        if args.child:
            parents.add(id_)


def run(url: str, folder: Path, options: argparse.Namespace, servers: Servers | None = None) -> dict[str, Any]:
    """Enqueue, strike, wait, and make the account."""
    for statement in filter(str.strip, TABLES.split(";")):
        execute(url, statement)  # type: ignore[arg-type]
    execute(url, "insert into list (key) select generate_series(0, %s)", KEYS - 1)
    dice, began, expected, parents, enqueued = random.Random(options.seed), time.monotonic(), {}, set(), 0
    wire = Wire(options.cuts, options.seed)
    with Proxy(url) as proxy:
        proxy.cut = wire
        hosts = []
        for place in range(2):
            home = folder / f"host-{place}"
            home.mkdir()
            environment = {**os.environ, **SETTINGS, "FASTQ_DATABASE_URL": proxy.url}
            hosts.append(Host(options.procs // 2, options.threads, environment, home, "tests.chaos.effects_app:registry"))
        fire = Fire(url, servers, hosts, options)
        try:
            with Client(url) as client:
                while fire.plan or enqueued < options.jobs:
                    while count(url, "job") < AHEAD:
                        enqueue(client, dice, BATCH, expected, parents)
                        enqueued += BATCH
                    if fire.plan:
                        fire.strike()
                    time.sleep(dice.random() * REST)
            wait_for(lambda: count(url, "job") == 0, PATIENCE, "the last job to end")
            codes = [host.stop() for host in hosts]
        finally:
            for host in hosts:
                host.clear()
    figures = account(url, expected, parents, enqueued, folder)
    return figures | {
        "struck": dict(fire.done),
        "cut": dict(wire.done),
        "seconds": round(time.monotonic() - began, 1),
        "stopped": codes,
        "seed": options.seed,
    }


def count(url: str, table: str) -> int:
    """Count the rows of a table of ours; the server may be away for a moment."""
    while True:
        try:
            ((rows,),) = execute(url, f"select count(*) from fastq.{table}")  # type: ignore[arg-type]
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return int(str(rows))


def account(url: str, expected: dict[int, list[int]], parents: set[int], jobs: int, folder: Path) -> dict[str, Any]:
    """Judge the lists, the children and the ends of the jobs."""
    lists: dict[int, list[int]] = dict(execute(url, "select key, numbers from list"))  # type: ignore[arg-type]
    readings = [Reading(*row) for row in execute(url, "select transaction, key, seen from reading")]  # type: ignore[arg-type]
    judged = judge(lists, readings, expected)
    children = Counter(
        parent
        for (parent,) in execute(
            url, "select (args ->> 'parent')::bigint from fastq.job_archive where kind = 'chaos_append_child'"
        )
    )
    said = "".join(path.read_text() for path in folder.glob("*/supervisors.log"))
    asked = Counter(
        line.partition("committed=")[2].split()[0]
        for line in said.splitlines()
        if " transaction.asked " in line and "committed=" in line
    )
    figures: dict[str, Any] = {
        "jobs": jobs,
        "transactions": len(expected),
        "appends": sum(map(len, lists.values())),
        "readings": len(readings),
        **{name: len(found) for name, found in judged._asdict().items()},
        "children": sum(children.values()),
        "children_lost": len(parents - children.keys()),
        "children_doubled": sum(times > 1 for times in children.values()),
        "asked": dict(asked),
        "asked_in_vain": said.count(" transaction.asked ") - sum(asked.values()),
        "lost_jobs": said.count(" job.lost "),
        "states": dict(execute(url, "select state::text, count(*) from fastq.job_archive group by 1")),
    }
    whole = figures["states"] == {"completed": jobs + len(parents)}
    return figures | {"passed": judged.clean and whole and not figures["children_lost"] and not figures["children_doubled"]}


def parser() -> argparse.ArgumentParser:
    """Return the options of the program."""
    made = argparse.ArgumentParser(prog="python -m tests.chaos.effects", description=__doc__)
    made.add_argument("--jobs", type=int, default=5_000, help="at least; as many as it takes to have jobs at each fault")
    made.add_argument("--kills", type=int, default=300, help="worker processes to SIGKILL")
    made.add_argument("--supervisor-kills", type=int, default=6, help="supervisors to SIGKILL, the leader among them")
    made.add_argument(
        "--thefts", type=int, default=100, help="times that jobs are taken away from their processes, up to 4 at once"
    )
    made.add_argument("--crashes", type=int, default=3, help="times that the server's postmaster is killed")
    made.add_argument("--cuts", type=float, default=0.02, help="share of the COMMITs at which the connection is cut")
    made.add_argument("--procs", type=int, default=6, help="worker processes, on two hosts")
    made.add_argument("--threads", type=int, default=4, help="of each worker process")
    made.add_argument("--seed", type=int, default=1)
    return made


def main() -> int:
    """Run it on a server of its own."""
    options = parser().parse_args()
    for name in [name for name in os.environ if name.startswith("FASTQ_")]:
        del os.environ[name]
    with scratch() as folder, Servers(folder) as servers:
        url = servers.create("effects")
        migrate(url)
        figures = run(url, folder, options, servers)
    print(json.dumps(figures))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
