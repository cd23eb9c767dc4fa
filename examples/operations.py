"""Operations: six payments are discarded while a provider is down; an operator runs all of them once more, by a filter.

fastq dev examples.operations:registry          works the jobs; brings its own Postgres
python -m examples.operations                   enqueues the payments, and the operator's job (in another terminal)

Afterwards, in a third: fastq jobs list kind:pay, fastq operations list, fastq audit list.
"""

from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Snooze, Worker

PAYMENTS = 6
DISCARDED = "kind:pay state:discarded error:provider"
registry = Registry()


@dataclass
class PayArgs(Args, kind="pay", max_attempts=1):
    order: int


@dataclass
class MendArgs(Args, kind="mend"):
    pass


@registry.register
class PayWorker(Worker[PayArgs]):
    def work(self, job: Job[PayArgs]) -> None:
        if job.attempt == 1:
            raise ConnectionError("the provider does not answer")
        print(f"order {job.args.order} is paid by attempt {job.attempt}")


@registry.register
class MendWorker(Worker[MendArgs]):
    """What an operator does with `fastq jobs list` and `fastq jobs retry` when the provider is up again."""

    def work(self, job: Job[MendArgs]) -> Snooze | None:
        with Client(database.url()) as client:
            if client.jobs.count(DISCARDED).jobs < PAYMENTS:
                return Snooze(0.2)
            for one in client.jobs.list(DISCARDED):
                print(f"job {one.id}: {one.error}")
            preview = client.jobs.preview("retry", DISCARDED)
            operation = client.jobs.retry(DISCARDED, by="ada")
        print(f"operation {operation.id} runs {preview.jobs} jobs once more, asked for by job {job.id}")
        return None


def main() -> None:
    with Client(database.url()) as client:
        client.enqueue_many([PayArgs(order) for order in range(PAYMENTS)])
        client.enqueue(MendArgs(), priority=2)


if __name__ == "__main__":
    main()
