"""A program with tests: a sign-up that enqueues two mails in its transaction. The tests are in test_tested.py.

pytest examples/test_tested.py          the tests: a Postgres comes with them, no worker process runs
fastq dev examples.tested:registry      works the jobs; brings its own Postgres
python -m examples.tested               signs somebody up (in another terminal)
"""

from dataclasses import dataclass

import psycopg

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()


@dataclass
class MailArgs(Args, kind="welcome_mail"):
    to: str
    subject: str


@registry.register
class MailWorker(Worker[MailArgs, str]):
    max_attempts = 3

    def work(self, job: Job[MailArgs]) -> str:
        if "@" not in job.args.to:
            raise ValueError(f"{job.args.to!r} is no address")
        print(f"mail     {job.args.subject!r} to {job.args.to}")
        return f"{job.args.subject} sent"


def sign_up(client: Client, conn: psycopg.Connection, address: str, later: float = 7 * 86_400) -> None:
    """Enqueue a mail for now and one for later, in the transaction of the connection."""
    client.enqueue(MailArgs(address, "Welcome"), conn=conn)
    client.enqueue(MailArgs(address, "How is it going?"), delay=later, conn=conn)


def main() -> None:
    """Sign somebody up, with a second mail that does not take a week."""
    url = database.url()
    with Client(url) as client, psycopg.connect(url) as conn:
        sign_up(client, conn, "ada@example.com", later=0.5)
    print("signed up ada@example.com")


if __name__ == "__main__":
    main()
