"""Steps: a job that is killed in its middle goes on where it was, sleeps, and waits for somebody's word.

fastq dev examples.steps:registry        works the jobs; brings its own Postgres
python -m examples.steps                 enqueues three orders, and approves two (in another terminal)

Each order is charged, waits until it is approved (or two seconds are over), and is shipped. The first one kills its process
behind its charge, and is not charged again by the next. An order that was just being charged in that process is: so `charge` is
given the job's id, by which a provider knows the second call from a second order. No attempt is spent on waiting.
"""

import os
import signal
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()


@dataclass
class OrderArgs(Args, kind="order"):
    customer: str
    dies: bool = False


@dataclass
class Receipt:
    number: int
    customer: str


@registry.register
class OrderWorker(Worker[OrderArgs, str]):
    def work(self, job: Job[OrderArgs]) -> str:
        receipt = job.step("charge", charge, job.id, job.args.customer)
        if job.args.dies and job.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        job.sleep(0.2)  # the provider wants to be left alone for a moment
        approved = job.wait_for("approved", str, timeout=2.0)
        if not approved:
            return job.step("refund", refund, receipt)
        return job.step("ship", ship, receipt, approved.value)


def charge(number: int, customer: str) -> Receipt:
    print(f"charge   {customer}")
    return Receipt(number, customer)


def ship(receipt: Receipt, by: str) -> str:
    print(f"ship     to {receipt.customer}, approved by {by}")
    return "shipped"


def refund(receipt: Receipt) -> str:
    print(f"refund   {receipt.customer}: nobody has approved it")
    return "refunded"


def main() -> None:
    """Enqueue three orders, one of which kills its process, and approve two."""
    with Client(database.url()) as client:
        ada, grace, _ = client.enqueue_many([OrderArgs("Ada", dies=True), OrderArgs("Grace"), OrderArgs("Barbara")])
        for order in (ada, grace):
            client.signal(order, "approved", "Hedy")
    print("enqueued 3 orders, approved 2")


if __name__ == "__main__":
    main()
