"""A job that may run twice and takes effect once: the effect and the note that it is done are one transaction.

fastq dev examples.idempotent:registry          works the jobs; brings its own Postgres
python -m examples.idempotent                   enqueues three payments (in another terminal)

A job runs at least once: if its process dies after the effect and before the completion, it runs again. Here each first
attempt fails right after its effect, as such a death would have it; the second finds it done.
"""

from dataclasses import dataclass

import psycopg

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()

TABLE = "create table if not exists example_payment (job_id bigint primary key, customer text not null, cents bigint not null)"


@dataclass
class ChargeArgs(Args, kind="charge"):
    customer: str
    cents: int


@registry.register
class ChargeWorker(Worker[ChargeArgs]):
    def work(self, job: Job[ChargeArgs]) -> str:
        with psycopg.connect(database.url()) as conn:  # commits at the end of the block
            done = conn.execute(
                "insert into example_payment values (%s, %s, %s) on conflict do nothing",
                (job.id, job.args.customer, job.args.cents),  # the job's id is the same in each attempt
            )
        charged = done.rowcount == 1
        if charged and job.attempt == 1:
            raise ConnectionError("lost after the effect")
        print(f"charge   {job.args.customer}: {'charged now' if charged else 'had been charged, nothing to do'}")
        return "charged now" if charged else "had been charged"

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        if isinstance(error, ConnectionError):
            return 0.1 * attempt  # s
        return super().retry_delay(attempt, error)  # attempt**4 s


def main() -> None:
    """Make the table and enqueue three payments."""
    url = database.url()
    with psycopg.connect(url) as conn, Client(url) as client:
        conn.execute(TABLE)
        client.enqueue_many([ChargeArgs(name, 500) for name in ("Ada", "Grace", "Barbara")], conn=conn)
    print("enqueued 3 payments")


if __name__ == "__main__":
    main()
