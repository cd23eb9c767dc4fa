"""`python -m tests.chaos.forgotten`: what the database forgets while its processes live is running for nobody, and not for long.

    --only lossy-failover,restore    some faults only
    --json                           one JSON object per fault

Each fault finds jobs that a supervisor with default settings executes, lets them end, and has the database forget it. Counted are
the jobs that the table says run and that nobody runs, by the ledger which the jobs write outside of it: when the fault is over,
and 5 s later. The exit code is 1 if there are any by then, if not all jobs are completed in the end, or if a fault that is meant
to make the database forget something did not.

A further fault is a function that takes a `Scene`, prepares itself, has `scene.run` execute jobs to their end, and returns when
it is over; its name goes into FAULTS.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fastq.enqueue.client import Client
from fastq.postgres import hints
from fastq.schema.migrate import migrate
from tests.chaos import ledger
from tests.chaos.app import Nap
from tests.chaos.processes import Host
from tests.chaos.servers import Servers, give, scratch
from tests.full_queue import FullQueue
from tests.helpers import execute, wait_for

JOBS, SECONDS = 80, 2.5  # fewer than there are threads, and long enough that all run at once though processes poll each second
PROCS, THREADS = 2, 50
WITHIN = 5.0  # s
PATIENCE = 60.0
RUNNING = "select id, attempt from fastq.job where state = 'running'"


@dataclass
class Scene:
    """A database with a supervisor that works it, and the servers that it is on."""

    servers: Servers
    name: str  # of the database
    url: str
    folder: Path  # for what a fault writes; the server's user may
    ledgers: Path
    settings: dict[str, str] = field(default_factory=dict)
    bites: bool = True  # the fault makes the database forget something; False: it would have, before
    enqueued: list[int] = field(default_factory=list)

    def run(self, between: Callable[[], None] = lambda: None) -> None:
        """Have jobs executed to their end; `between` is called while they run."""
        with Client(self.url) as client:
            self.enqueued += (ids := client.enqueue_many([Nap(SECONDS)] * JOBS))
        wait_for(lambda: len(self.executing()) == len(ids), PATIENCE, "the jobs to run")
        between()
        wait_for(lambda: execute(self.url, "select count(*) from fastq.job") == [(0,)], PATIENCE, "the jobs to complete")

    def executing(self) -> set[tuple[int, int]]:
        """Return the jobs, with their attempts, that have started and not ended by their own word."""
        last = {(one.job, one.attempt): one.what for one in sorted(ledger.read(self.ledgers), key=lambda one: one.at)}
        return {attempt for attempt, what in last.items() if what == ledger.START}

    def stuck(self) -> int:
        """Count the jobs that the table says run and that nobody runs; what was just claimed or has just ended gets a moment."""
        seen = [set(execute(self.url, RUNNING)) - self.executing()]
        time.sleep(0.3)
        seen.append(set(execute(self.url, RUNNING)) - self.executing())
        return len(seen[0] & seen[1])


def lossy_failover(scene: Scene) -> None:
    """Promote a standby that has not got what the primary wrote last."""
    servers = scene.servers
    servers.add_standby()
    sender: list[int] = []

    def hold_back() -> None:
        caught_up = "select pid from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()"
        ((pid,),) = wait_for(lambda: execute(servers.primary.url, caught_up), PATIENCE, "the standby to catch up")
        sender.append(int(str(pid)))
        os.kill(sender[0], signal.SIGSTOP)

    scene.run(hold_back)
    servers.promote()


def restore(scene: Scene) -> None:
    """Restore a dump that was made while the jobs ran, with everything in it, under the supervisor."""
    dump = str(scene.folder / "dump")
    where = ("--host", str(scene.servers.primary.data), "--username", "postgres", "--dbname", scene.name)
    scene.run(lambda: scene.servers.tool("pg_dump", *where, "--format=custom", "--schema=fastq", "--file", dump))
    scene.servers.tool("pg_restore", *where, "--clean", "--if-exists", "--single-transaction", dump)


def restore_of_a_table(scene: Scene) -> None:
    """Empty the table of the jobs, and fill it with an older copy: no connection is lost."""
    scene.run(lambda: execute(scene.url, "create table public.kept as select * from fastq.job") and None)
    execute(
        scene.url,
        """with gone as (delete from fastq.job_archive where id in (select id from public.kept))
        insert into fastq.job overriding system value select * from public.kept""",
    )


def crash(scene: Scene) -> None:
    """Crash the server where commits are not waited for: what our sessions have written is there."""
    execute(scene.servers.primary.url, "alter system set wal_writer_delay = '10s'")
    execute(scene.servers.primary.url, "select pg_reload_conf()")
    scene.run(lambda: execute(scene.servers.primary.url, "checkpoint") and None)  # up to here it remembers
    scene.servers.crash()


def crash_pooled(scene: Scene) -> None:
    """Do the same where a session's settings are not ours."""
    crash(scene)


def full_queue(scene: Scene) -> None:
    """Fill the server's queue of notifications while jobs run; let others fail, succeed and become due until all have ended."""
    full: list[FullQueue] = []
    scene.run(lambda: full.append(FullQueue(scene.servers.primary.url)))
    with Client(scene.url) as client, psycopg.connect(scene.url, autocommit=True) as listener:
        scene.enqueued += client.enqueue_many([Nap(0.1, failures=1)] * JOBS)
        scene.enqueued += client.enqueue_many([Nap(0.1)] * JOBS, delay=1.0)
        wait_for(lambda: execute(scene.url, "select count(*) from fastq.job") == [(0,)], PATIENCE, "the jobs to complete")
        full[0].empty()
        listener.execute("listen fastq")

        def woken() -> list[psycopg.Notify]:
            scene.enqueued.append(client.enqueue(Nap(0.0)))
            return list(listener.notifies(timeout=0.2, stop_after=1))

        wait_for(woken, 2 * hints.REST, "notifications to come again")


ASYNC: Any = "alter database {} set synchronous_commit = off"
FAULTS: dict[str, Callable[[Scene], None]] = {
    "lossy-failover": lossy_failover,
    "restore": restore,
    "restore-of-a-table": restore_of_a_table,
    "async-crash": crash,
    "async-crash-pooled": crash_pooled,
    "full-queue": full_queue,
}
HARMLESS = {"async-crash", "full-queue"}  # the database forgets nothing, or no more


def measure(name: str, servers: Servers, folder: Path) -> dict[str, Any]:
    """Run one fault; return its figures."""
    database = f"forgotten_{os.getpid()}_{name.replace('-', '_')}"
    migrate(servers.create(database))
    url = servers.any_url_of(database)
    where = folder / name
    ledgers, written = where / "ledgers", where / "written"
    for made in (ledgers, written):
        made.mkdir(parents=True)
    where.chmod(0o755)
    give(written)
    scene = Scene(servers, database, url, written, ledgers, bites=name not in HARMLESS)
    if name.startswith("async"):
        execute(url, ASYNC.format(database))
    if name.endswith("pooled"):
        scene.settings["FASTQ_POLL_ONLY"] = "1"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FASTQ_")}
    variables = {**clean, **scene.settings, "FASTQ_DATABASE_URL": url, "CHAOS_LEDGER": str(ledgers), "PYTHONUNBUFFERED": "1"}
    host = Host(PROCS, THREADS, variables, where)
    try:
        wait_for(lambda: len(host.workers()) == PROCS, PATIENCE, "the worker processes")
        FAULTS[name](scene)
        return judge(name, scene)
    finally:
        host.clear()


def judge(name: str, scene: Scene) -> dict[str, Any]:
    """Count when the fault is over, and again after a while."""
    wait_for(lambda: answers(scene.url), PATIENCE, "the server to answer")
    over = time.monotonic()
    forgotten = len(execute(scene.url, RUNNING))  # all had ended
    time.sleep(max(0.0, over + WITHIN - time.monotonic()))
    stuck = scene.stuck()
    problems = [f"{stuck} jobs ran for nobody after {WITHIN:g} s"] if stuck else []
    if bool(forgotten) is not scene.bites:
        problems.append(f"{forgotten} jobs were forgotten, expected {'some' if scene.bites else 'none'}")
    try:
        wait_for(lambda: execute(scene.url, "select count(*) from fastq.job") == [(0,)], PATIENCE, "all jobs to end")
    except AssertionError as error:
        problems.append(str(error))
    ended = execute(scene.url, "select id from fastq.job_archive where state = 'completed'")
    if lost := set(scene.enqueued) - {int(str(id_)) for (id_,) in ended}:
        problems.append(f"{len(lost)} jobs are not completed")
    twice = sum(one.what == ledger.START and one.attempt > 1 for one in ledger.read(scene.ledgers))
    return {
        "fault": name,
        "jobs": len(scene.enqueued),
        "forgotten": forgotten,
        f"stuck_after_{WITHIN:g}_s": stuck,
        "executed_again": twice,
        "passed": not problems,
        "problems": problems,
    }


def answers(url: str) -> bool:
    """Tell whether the server takes writes."""
    try:
        return bool(execute(url, "select 1"))
    except psycopg.Error:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.forgotten", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"of {', '.join(FAULTS)}")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name] or list(FAULTS)
    if unknown := set(names) - FAULTS.keys():
        parser.error(f"--only: expected some of {', '.join(FAULTS)}, got {', '.join(sorted(unknown))}")
    for name in [name for name in os.environ if name.startswith("FASTQ_")]:
        del os.environ[name]
    passed = True
    for name in names:
        with scratch() as folder, Servers(folder) as servers:
            result = measure(name, servers, folder)
        passed = passed and bool(result["passed"])
        print(json.dumps(result) if options.json else "  ".join(f"{key} {value}" for key, value in result.items()), flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
