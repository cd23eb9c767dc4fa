"""Steps under fire: `python -m tests.chaos.steps --kills 300`.

Two hosts work jobs of several steps (steps_app.py), in threads and in coroutines, which sleep and wait for a signal in between.
Meanwhile worker processes and supervisors are killed, the server crashes, jobs are taken away
from their processes as a rescue does it, and connections are cut at the records of steps and at COMMITs: before one arrives,
while it is written, and when the answer is on its way. Signals are sent before jobs wait for them, and after. The account: no
step began whose record was committed, no row of a cursor was done again behind its record, the writes of a step in a transaction
are there once, with its record, and each job has completed with the values of its records.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from fastq import Client
from fastq.schema.migrate import migrate
from tests.chaos.effects import PATIENCE, REST, SETTINGS, Fire, Wire, count, parser
from tests.chaos.processes import Host
from tests.chaos.servers import Servers, scratch
from tests.chaos.steps_app import KINDS, SIGNAL, TABLES
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

BATCH, AHEAD = 100, 200  # jobs of one enqueue; jobs that there are at least, while there is more to strike
MARKS = (b"step:", b"rows", b"tx:", b"COMMIT")  # the names of the records, which their statements carry; the ends of transactions
WRONG = {
    "steps_again": "select count(*) from run where recorded",
    "rows_again": "select count(*) from row_done where late",
    "steps_without_record": """select count(*) from (
        select job, step from run group by job, step
        except select job, name from fastq.job_step where sort = 'step') as lost""",
    "records_of_no_run": """select count(*) from fastq.job_step left join run
        on run.job = job_step.job and run.step = name and run.token::text = output::text
        where sort = 'step' and name <> 'tx:' and token is null""",
    "payments_again": "select count(*) - count(distinct job) from paid",
    "payments_unlike_records": """select count(*) from (select job, token::text from paid) as paid
        full join (select job, output::text from fastq.job_step where sort = 'step' and name = 'tx:') as noted
        on noted.job = paid.job and noted.output = paid.token
        where paid.job is null or noted.job is null""",
    "rows_lost": """select count(*) from fastq.job_archive cross join lateral generate_series(0, (args ->> 'rows')::int - 1) as n
        where not exists (select from row_done where job = id and number = n)""",
    "outputs_unlike_records": """select count(*) from fastq.job_archive where output::jsonb is distinct from (
        select jsonb_agg(job_step.output::text::bigint order by case sort when 'signal' then 'step:1~' else name end)
        from fastq.job_step where job = id and sort in ('step', 'signal'))""",
    "not_completed": "select count(*) from fastq.job_archive where state <> 'completed'",
}
FIGURES = {
    "runs": "select count(*) from run",
    "steps": "select count(*) from fastq.job_step where sort = 'step'",
    "rows": "select count(*) from row_done",
    "payments": "select count(*) from paid",
    "sleeps": "select count(*) from fastq.job_step where sort = 'sleep'",
    "signals": "select count(*) from fastq.job_step where sort = 'signal'",
}


class StepWire(Wire):
    """The dice by which connections are cut at records of steps."""

    def __call__(self, chunk: bytes) -> str | None:
        """Say where to cut, if at all."""
        return super().__call__(b"COMMIT") if any(mark in chunk for mark in MARKS) else None


def enqueue(client: Client, dice: random.Random, unsent: set[int]) -> None:
    """Enqueue some jobs, and send half of those that will wait their signal at once."""
    drawn = [
        dice.choice(KINDS)(
            steps=dice.randint(2, 5),
            rows=dice.choice((0, 0, 5)),
            naps=dice.random() < 0.3,
            waits=dice.random() < 0.4,
            seconds=dice.random() ** 3 * 0.1,
        )
        for _ in range(BATCH)
    ]
    for id_, args in zip(client.enqueue_many(drawn), drawn, strict=True):
        if args.waits:
            unsent.add(id_)


def signal(client: Client, dice: random.Random, unsent: set[int], share: float) -> None:
    """Send some of the signals."""
    for job in sorted(unsent):
        if dice.random() < share:
            assert client.signal(job, SIGNAL, job)
            unsent.discard(job)


def run(url: str, folder: Path, options: argparse.Namespace, servers: Servers | None = None) -> dict[str, Any]:
    """Enqueue, strike, signal, wait, and make the account."""
    for statement in filter(str.strip, TABLES.split(";")):
        execute(url, statement)  # type: ignore[arg-type]
    dice, began, enqueued = random.Random(options.seed), time.monotonic(), 0
    unsent: set[int] = set()
    wire = StepWire(options.cuts, options.seed)
    with Proxy(url) as proxy:
        proxy.cut = wire
        hosts = []
        for place in range(2):
            home = folder / f"host-{place}"
            home.mkdir()
            environment = {**os.environ, **SETTINGS, "FASTQ_DATABASE_URL": proxy.url}
            hosts.append(Host(options.procs // 2, options.threads, environment, home, "tests.chaos.steps_app:registry"))
        fire = Fire(url, servers, hosts, options)
        try:
            with Client(url) as client:
                while fire.plan or enqueued < options.jobs:
                    while count(url, "job") - len(unsent) < AHEAD:
                        enqueue(client, dice, unsent)
                        enqueued += BATCH
                    signal(client, dice, unsent, 0.5)
                    if fire.plan:
                        fire.strike()
                    time.sleep(dice.random() * REST)
                signal(client, dice, unsent, 1.0)
            wait_for(lambda: count(url, "job") == 0, PATIENCE, "the last job to end")
            codes = [host.stop() for host in hosts]
        finally:
            for host in hosts:
                host.clear()
    wrong = {name: int(str(execute(url, text)[0][0])) for name, text in WRONG.items()}  # type: ignore[arg-type]
    return {
        "jobs": enqueued,
        **{name: execute(url, text)[0][0] for name, text in FIGURES.items()},  # type: ignore[arg-type]
        **wrong,
        "struck": dict(fire.done),
        "cut": dict(wire.done),
        "seconds": round(time.monotonic() - began, 1),
        "stopped": codes,
        "seed": options.seed,
        "passed": not any(wrong.values()) and count(url, "job_archive") == enqueued,
    }


def main() -> int:
    """Run it on a server of its own."""
    made = parser()
    made.prog, made.description = "python -m tests.chaos.steps", __doc__
    options = made.parse_args()
    for name in [name for name in os.environ if name.startswith("FASTQ_")]:
        del os.environ[name]
    with scratch() as folder, Servers(folder) as servers:
        url = servers.create("steps")
        migrate(url)
        figures = run(url, folder, options, servers)
    print(json.dumps(figures))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
