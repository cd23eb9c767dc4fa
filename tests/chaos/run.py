"""One run: a database, jobs that come at a steady pace, a supervisor, kills at random, and the account at the end.

Jobs come through the public Client from this process, which is never killed, so it knows every id that was acknowledged.
Some transactions commit late and some are rolled back, some jobs are due later, some fail once. The pace is such that a
third of the executors would do: what recovery takes is then recovery, and not the line that a job stands in again.

Random numbers come from the seed; what the machine makes of them differs from run to run.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from fastq.enqueue.client import Client
from tests.chaos import ledger
from tests.chaos.app import Nap
from tests.chaos.checker import Evidence, Row, Verdict, check, measure_recovery, quantile
from tests.chaos.processes import ORPHANS_LEAVE_WITHIN, Host
from tests.helpers import execute, wait_for

LONGEST_NAP = 0.02  # s
SETTINGS = {  # times to live are shortened by configuration, so that the death of a whole host is over in seconds
    "FASTQ_PROCESS_TTL": "3",
    "FASTQ_BEAT_INTERVAL": "1",
    "FASTQ_LEASE_TTL": "2",
    "FASTQ_MAX_CRASHES": "100",  # a job may be hit by several kills; here that is bad luck and no poison
    "FASTQ_LOG_LEVEL": "debug",
}
SPARE = 3
"""Faults' worth of jobs that may be enqueued ahead of the faults: each fault shall find jobs at work."""

STALLED = 60.0
"""Seconds without a job ending, after which the rest counts as lost: process and lease have long expired by then."""

ROWS = """select id, state::text, attempt, max_attempts,
    array(select (error ->> 'attempt')::int from jsonb_array_elements(errors) as error)
    from fastq.job_archive where kind = 'chaos_nap'"""


@dataclass
class Plan:
    """What to do; `every` is the mean number of seconds between two faults."""

    jobs: int
    kills: int
    supervisor_kills: int = 0
    procs: int = 2
    seed: int = 0
    every: float = 0.5
    whole_hosts: bool = False  # with a supervisor everything below it is killed, so that nobody gives its jobs back

    @property
    def faults(self) -> int:
        """Count all planned faults."""
        return self.kills + self.supervisor_kills

    @property
    def rate(self) -> float:
        """Return the jobs per second that make the jobs last a little longer than the faults."""
        return self.jobs / ((self.faults + SPARE) * self.every * 1.15)

    @property
    def concurrency(self) -> int:
        """Return the executors per process: three times what the pace needs, so that one process can die."""
        return max(4, min(64, round(3 * self.rate * LONGEST_NAP / 2 / self.procs)))


@dataclass
class Feeder:
    """Enqueues the jobs, a few every moment, and keeps account; `fired` counts the faults, which it does not run ahead of."""

    plan: Plan
    url: str
    fired: Callable[[], int]
    acknowledged: list[int] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    error: BaseException | None = None
    stopped: bool = False  # set by the main thread when the run has failed

    def run(self) -> None:
        """Enqueue everything; an error is kept for the main thread."""
        try:
            with Client(self.url) as client:
                self._feed(client, random.Random(f"feed {self.plan.seed}"))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread raises it
            self.error = error

    def _feed(self, client: Client, dice: random.Random) -> None:
        plan, started = self.plan, time.monotonic()
        late: list[tuple[float, psycopg.Connection[Any], list[int]]] = []  # open transactions by the time of their end
        sent = 0
        while (sent < plan.jobs or late) and not self.stopped:
            by_now = (time.monotonic() - started) * plan.rate
            allowed = plan.jobs * (self.fired() + SPARE) / (plan.faults + SPARE)
            count = max(0, int(min(by_now, allowed, plan.jobs)) - sent)
            if count:
                sent += count
                naps = [Nap(dice.random() * LONGEST_NAP, failures=int(dice.random() < 0.01)) for _ in range(count)]
                delay = 0.5 if dice.random() < 0.05 else None
                if dice.random() < 0.05:
                    connection = psycopg.connect(self.url)
                    ids = client.enqueue_many(naps, conn=connection)
                    late.append((time.monotonic() + dice.random(), connection, ids))
                else:
                    self.acknowledged += client.enqueue_many(naps, delay=delay)
            for entry in [entry for entry in late if entry[0] <= time.monotonic()]:
                late.remove(entry)
                sent -= self._finish(entry[1], entry[2], rolled_back=dice.random() < 0.2)
            time.sleep(0.02)

    def _finish(self, connection: psycopg.Connection[Any], ids: list[int], *, rolled_back: bool) -> int:
        """End a transaction; return how many of its jobs have to be sent again."""
        with connection:
            if rolled_back:
                connection.rollback()
            else:
                connection.commit()
        (self.rolled_back if rolled_back else self.acknowledged).extend(ids)
        return len(ids) if rolled_back else 0


def run(plan: Plan, url: str, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Carry out a plan on a fresh, migrated database, with some more settings of the supervisors; return the account."""
    started = time.monotonic()
    environment = {**os.environ, **SETTINGS, **settings, "FASTQ_DATABASE_URL": url, "CHAOS_LEDGER": str(folder)}
    host = Host(plan.procs, plan.concurrency, environment, folder)
    feeder = Feeder(plan, url, lambda: len(host.faults))
    thread = threading.Thread(target=feeder.run, name="feeder")
    try:
        wait_for(host.workers, 30.0, "the first worker process")
        thread.start()
        wait_for(lambda: feeder.error or any(folder.glob("*.ledger")), 30.0, "the first job to start")
        inject(plan, host)
        thread.join()
        if feeder.error is not None:
            raise feeder.error
        await_end(url, host)
        exit_code = host.stop()
    finally:
        feeder.stopped = True
        host.clear()
    rows = [Row(*columns, frozenset(errors)) for *columns, errors in execute(url, ROWS)]
    left = [job for (job,) in execute(url, "select id from fastq.job where kind = 'chaos_nap'")]
    evidence = Evidence(feeder.acknowledged, feeder.rolled_back, left, rows, list(ledger.read(folder)), host.faults)
    verdict = check(evidence)
    measure_recovery(evidence, verdict)
    return account(plan, evidence, verdict, host, exit_code, time.monotonic() - started)


def inject(plan: Plan, host: Host) -> None:
    """Kill worker processes and supervisors in an order and at times drawn from the seed."""
    dice = random.Random(f"faults {plan.seed}")
    targets = ["worker"] * plan.kills + ["supervisor"] * plan.supervisor_kills
    dice.shuffle(targets)
    for target in targets:
        time.sleep(plan.every * dice.uniform(0.6, 1.4))
        if target == "worker":
            host.kill_worker(dice)
        else:
            host.kill_supervisor(whole=plan.whole_hosts)


def await_end(url: str, host: Host) -> None:
    """Wait until no job is left, or none has ended for a long time."""
    left, moved = -1, time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:
        while host.alive and time.monotonic() - moved < STALLED:
            (count,) = connection.execute("select count(*) from fastq.job where kind = 'chaos_nap'").fetchone() or (0,)
            if count == 0:
                return
            if count != left:
                left, moved = count, time.monotonic()
            time.sleep(0.05)


def account(
    plan: Plan, evidence: Evidence, verdict: Verdict, host: Host, exit_code: int | None, seconds: float
) -> dict[str, Any]:
    """Put everything into one flat object for people and machines."""
    states = [row.state for row in evidence.rows]
    figures: dict[str, Any] = {
        "enqueued": len(evidence.acknowledged),
        "rolled_back": len(evidence.rolled_back),
        **{state: states.count(state) for state in ("completed", "cancelled", "discarded")},
        "lost": len(verdict.lost),
        "unexplained_duplicates": len(verdict.unexplained),
        "explained_duplicates": verdict.explained,
        "unflushed_duplicates": verdict.unflushed,
        "retried": verdict.retried,
        "overlapping": len(verdict.overlapping),
        "never_committed": len(verdict.never_committed),
        "miscounted_attempts": len(verdict.miscounted),
    }
    for target, prefix in (("worker", ""), ("supervisor", "supervisor_")):
        values = verdict.recovery[target]
        figures |= {f"{prefix}recovery_{name}_s": quantile(values, q) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
        figures[f"{prefix}recovered"] = len(values)
    fired = [fault.target for fault in host.faults]
    figures |= {
        "kills": fired.count("worker"),
        "supervisor_kills": fired.count("supervisor"),
        "faults_missed": plan.faults - len(fired),
        "orphans_gone_max_s": max(host.orphaned, default=None),
        "stopped": exit_code,
        "procs": plan.procs,
        "concurrency": plan.concurrency,
        "process_ttl_s": float(SETTINGS["FASTQ_PROCESS_TTL"]),
        "seed": plan.seed,
        "seconds": round(seconds, 2),
        "problems": verdict.problems[:20],
    }
    orphans = [seconds for seconds in host.orphaned if seconds > ORPHANS_LEAVE_WITHIN]
    figures["passed"] = verdict.good and figures["faults_missed"] == 0 and not orphans and exit_code == 0
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
