"""Effects exactly once: a job ends in one transaction with its writes, so that its process may die at any moment.

fastq dev examples.effects_once:registry        works the jobs; brings its own Postgres
python -m examples.effects_once                 enqueues ten transfers (in another terminal)

Some of the processes kill themselves in their transaction, some right behind it. In the end each transfer has happened once: the
money has moved, its note is there, and the mail for it was enqueued, without any check for a second run.
"""

import os
import signal
from dataclasses import dataclass

import psycopg

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()
client = Client(database.url())

TABLES = """
create table if not exists example_balance (owner text primary key, cents bigint not null);
create table if not exists example_transfer (job_id bigint not null, cents bigint not null);
insert into example_balance values ('Ada', 10000), ('Grace', 0) on conflict do nothing;
"""


@dataclass
class MailArgs(Args, kind="transfer_mail"):
    transfer: int


@dataclass
class TransferArgs(Args, kind="transfer"):
    cents: int
    dies: str = ""  # "in" the first attempt's transaction, or "after" it


@registry.register
class TransferWorker(Worker[TransferArgs]):
    def work(self, job: Job[TransferArgs]) -> None:
        with job.transaction() as conn:
            conn.execute("update example_balance set cents = cents - %s where owner = 'Ada'", (job.args.cents,))
            conn.execute("update example_balance set cents = cents + %s where owner = 'Grace'", (job.args.cents,))
            conn.execute("insert into example_transfer values (%s, %s)", (job.id, job.args.cents))
            client.enqueue(MailArgs(job.id), conn=conn)
            die(job, "in")
        die(job, "after")


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> None:
        print(f"mail     transfer {job.args.transfer} is done")


def die(job: Job[TransferArgs], when: str) -> None:
    """Kill this process, if it is to die now."""
    if job.args.dies == when and job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Make the tables and enqueue ten transfers, two of which kill their process."""
    with psycopg.connect(database.url()) as conn:
        for statement in filter(str.strip, TABLES.split(";")):
            conn.execute(statement.encode())
        fates = {3: "in", 6: "after"}
        client.enqueue_many([TransferArgs(100, fates.get(number, "")) for number in range(10)], conn=conn)
    print("enqueued 10 transfers")


if __name__ == "__main__":
    main()
