"""Fairness: a customer with many reports waits for nobody, and nobody waits for all of them.

fastq dev examples.fairness:registry            works the jobs; brings its own Postgres
python -m examples.fairness                     enqueues reports of three customers (in another terminal)

Meanwhile, in a third: fastq gates list, fastq jobs why ID.
"""

import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Fair, Job, Registry, Worker

registry = Registry()


@dataclass
class ReportArgs(Args, kind="report", gates=[Fair("customers", by="customer", window=4, share="share")]):
    customer: str
    share: int = 1


@registry.register
class ReportWorker(Worker[ReportArgs]):
    def work(self, job: Job[ReportArgs]) -> float:
        began = time.time()
        time.sleep(0.02)
        print(f"report for {job.args.customer}")
        return began


def main() -> None:
    """Enqueue sixty reports of a customer, and then a few of two others, one of whom has paid for a double share."""
    with Client(database.url()) as client:
        client.enqueue_many([ReportArgs("Ada") for _ in range(60)])
        client.enqueue_many([ReportArgs("Grace") for _ in range(5)])
        ids = client.enqueue_many([ReportArgs("Barbara", share=2) for _ in range(10)])
        print(client.why(ids[-1]))


if __name__ == "__main__":
    main()
