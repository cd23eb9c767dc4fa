"""A projection that one process of the cluster keeps, and a mail per order that is sent once, whoever takes over from whom.

fastq dev examples.singleton:registry           runs it; brings its own Postgres
python -m examples.singleton                    places some orders (in another terminal)

Run the first command in a second terminal too: one of the two projects. End that one, and the other goes on.
"""

from dataclasses import dataclass
from typing import Any

import psycopg

from examples import database
from fastq import Args, Client, Job, Registry, Singleton, Snooze, Worker

registry = Registry()

TABLES = """
    create table if not exists example_order (id bigint generated always as identity primary key, customer text, cents bigint);
    create table if not exists example_revenue (customer text primary key, cents bigint not null)
"""
ORDERS = "select id, customer, cents from example_order where id > %s order by id limit 1000"
ADD = """
    insert into example_revenue values (%s, %s)
    on conflict (customer) do update set cents = example_revenue.cents + excluded.cents
"""
OVERLAP = 1_000  # orders that are looked at again: an order can commit later than one with a higher number


def connected() -> psycopg.Connection[tuple[Any, ...]]:
    """Connect, and see to it that the tables exist."""
    conn = psycopg.connect(database.url(), autocommit=True)
    conn.execute(TABLES)
    return conn


@registry.singleton("projection:revenue")
def project(singleton: Singleton) -> None:
    """Add each order to its customer's revenue: the note that it is done and the effect are one transaction."""
    seen = 0
    with connected() as conn:
        while not singleton.wait(0.2):
            for number, customer, cents in conn.execute(ORDERS, (seen - OVERLAP,)).fetchall():
                with conn.transaction():
                    if singleton.once(f"order {number}", conn):
                        conn.execute(ADD, (customer, cents))
                seen = max(seen, number)


@registry.singleton("mails")
def thank(singleton: Singleton) -> None:
    """Send a mail per order: a mail cannot be rolled back, so it is claimed first, and is sent at most once."""
    seen = 0
    with connected() as conn:
        while not singleton.wait(0.2):
            for number, customer, _ in conn.execute(ORDERS, (seen - OVERLAP,)).fetchall():
                if singleton.once(f"order {number}"):
                    print(f"mail     thank you for order {number}, {customer}")
                seen = max(seen, number)


@dataclass
class ReportArgs(Args, kind="report"):
    cents: int


@registry.register
class ReportWorker(Worker[ReportArgs]):
    def work(self, job: Job[ReportArgs]) -> object:
        with connected() as conn:
            rows = conn.execute("select customer, cents from example_revenue order by customer").fetchall()
        if sum(cents for _, cents in rows) < job.args.cents:
            return Snooze(0.3)  # the projection is not there yet
        print("revenue  " + ", ".join(f"{customer} {cents}" for customer, cents in rows))
        return None


def main() -> None:
    """Place five orders, and ask for a report when all of them have been projected."""
    with connected() as conn, Client(database.url()) as client:
        with conn.transaction():
            for customer, cents in (("Ada", 300), ("Grace", 500), ("Ada", 200), ("Barbara", 900), ("Grace", 100)):
                conn.execute("insert into example_order (customer, cents) values (%s, %s)", (customer, cents))
        total = conn.execute("select sum(cents)::bigint from example_order").fetchall()[0][0]
        client.enqueue(ReportArgs(total))
    print("placed 5 orders")


if __name__ == "__main__":
    main()
