"""`python -m tests.chaos.failover`: how long nobody leads after each kind of fault, and that no leader of the past ever writes.

    --cycles 30 --ttl 1            the failover table: one row per kind of fault
    --only kill,graceful           some rows only
    --freeze 25                    freeze the leader inside its chores and let it go on later: 0 writes of a stale term
    --two-leaders 60               two leaders at once for so many seconds: nothing twice, nothing lost
    --schedule 60                  a tick each second while leaders are killed: none missing, none twice
    --json                         one JSON object per row

The time that a server is away is shown, and not held against the supervisors. The three further modes leave the table
out. The exit code is 1 if a bound is missed.
"""

import argparse
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from fastq.schema.migrate import migrate
from tests.chaos import faults, freeze, schedule, two_leaders
from tests.chaos.faults import Scene
from tests.chaos.result import Result, table
from tests.chaos.servers import Pooler, Servers, scratch

SIMPLE: dict[str, Callable[[str, Path, float], Scene]] = {
    "graceful": faults.graceful,
    "kill": faults.kill,
    "freeze": faults.freeze,
    "cut": faults.cut,
    "frozen-peer": faults.frozen_peer,
    "backend-crash": faults.backend_crash,
}
NAMES = {
    "graceful": "graceful stop",
    "kill": "SIGKILL of the supervisor",
    "freeze": "SIGSTOP of the supervisor",
    "cut": "network cut (black hole)",
    "frozen-peer": "frozen backend of the lease",
    "backend-crash": "Postgres: backend killed",
    "server-crash": "Postgres: killed, restarted",
    "promotion": "Postgres: standby promoted",
    "pooler": "pooler restarted",
}
SHARE = {"backend-crash": 3, "server-crash": 3, "promotion": 6, "pooler": 3, "cut": 2, "frozen-peer": 2, "freeze": 2}
"""One cycle of these for so many of the others: they take longer, and what differs from cycle to cycle is the same."""


def row(name: str, cycles: int, ttl: float, servers: Servers, folder: Path, slack: float = 1.0) -> Result:
    """Run one row of the table; `slack` is by how much more than the bound is borne."""
    if name == "pooler" and shutil.which("pgbouncer") is None:
        return Result(NAMES[name], 0, note="skipped: no pgbouncer on the PATH")
    cycles = max(1, cycles // SHARE.get(name, 1))
    logs = folder / name
    logs.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(
            faults.database(servers, f"failover_{os.getpid()}_{name.replace('-', '_')}", any_server=name == "promotion")
        )
        if name == "server-crash":
            scene = faults.server_crash(url, logs, ttl, servers)
        elif name == "promotion":
            scene = faults.promotion(url, logs, ttl, servers)
        elif name == "pooler":
            scene = faults.pooler_restart(url, logs, ttl, stack.enter_context(Pooler(url, folder)))
        else:
            scene = SIMPLE[name](url, logs, ttl)
        stack.enter_context(scene.candidates)
        scene.bound *= slack
        return faults.measure(NAMES[name], scene, cycles)


def run_modes(options: argparse.Namespace, servers: Servers, folder: Path) -> list[Result]:
    """Run the modes that were asked for, or the table."""
    results = []

    def fresh(name: str) -> tuple[str, Path]:
        logs = folder / name
        logs.mkdir()
        url = servers.create(f"failover_{os.getpid()}_{name}")
        migrate(url)
        return url, logs

    def done(result: Result) -> None:
        results.append(result)
        print(json.dumps(result.as_json()) if options.json else "\n".join(table([result]).splitlines()[-1:]), flush=True)
        for problem in [] if options.json else result.problems[:20]:
            print(f"    {problem}", flush=True)

    if options.freeze:
        done(freeze.run(*fresh("frozen"), options.freeze, options.ttl))
        blind = freeze.run(
            *fresh("unfenced"), 3, options.ttl, freeze.POINTS[:3], freeze.unfenced(folder), name="the same without the fence"
        )
        blind.figures["seen"] = blind.stale
        blind.problems = [] if blind.stale else ["no stale write was seen although nothing kept them back: the check is blind"]
        done(blind)
    if options.two_leaders:
        done(two_leaders.run(*fresh("two"), options.two_leaders))
    if options.schedule:
        done(schedule.run(*fresh("schedule"), options.schedule, options.ttl))
    if not results:
        for name in options.only.split(",") if options.only else NAMES:
            done(row(name, options.cycles, options.ttl, servers, folder))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.failover", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--ttl", type=float, default=1.0)
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--freeze", type=int, default=0, metavar="CYCLES")
    parser.add_argument("--two-leaders", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--schedule", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy the logs here")
    options = parser.parse_args()
    if unknown := set(filter(None, options.only.split(","))) - NAMES.keys():
        parser.error(f"--only: expected some of {', '.join(NAMES)}, got {', '.join(sorted(unknown))}")
    for name in [name for name in os.environ if name.startswith("FASTQ_")]:
        del os.environ[name]
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # the load's, while the server is away
    with scratch() as folder:
        try:
            with Servers(folder) as servers:
                results = run_modes(options, servers, folder)
        finally:
            if options.keep:
                shutil.copytree(folder, options.keep, ignore=shutil.ignore_patterns("one", "two", "unfenced"), dirs_exist_ok=True)
    if not options.json:
        print("\n" + table(results))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
