"""Dead letters: six payments are discarded while a provider is down; an operator's job groups them and replays them at a rate.

fastq dev examples.dead_letters:registry        works the jobs; brings its own Postgres
python -m examples.dead_letters                 enqueues the payments, and the operator's job (in another terminal)

Afterwards, in a third: fastq dead, fastq dead show GROUP, fastq jobs show ID of a job that was replayed.
"""

from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Snooze, Worker

PAYMENTS = 6
registry = Registry()


@dataclass
class PayArgs(Args, kind="pay", max_attempts=1):
    order: int
    cents: int


@dataclass
class MendArgs(Args, kind="mend"):
    pass


@registry.register
class PayWorker(Worker[PayArgs]):
    def work(self, job: Job[PayArgs]) -> None:
        if job.replay_of is None:  # the provider is down
            raise ConnectionError(f"10.0.0.{job.args.order} did not answer for order {job.args.order}")
        print(f"order {job.args.order} is paid by a job that replays job {job.replay_of}")


@registry.register
class MendWorker(Worker[MendArgs]):
    """What an operator does with `fastq dead` and `fastq dead replay` when the provider is up again."""

    def work(self, job: Job[MendArgs]) -> Snooze | None:
        with Client(database.url()) as client:
            groups = client.dead(kind="pay").groups
            if sum(group.jobs for group in groups) < PAYMENTS:
                return Snooze(0.5)  # some have not failed yet
            for group in groups:
                print(f"{group.jobs} jobs of kind {group.kind} {group.cause}: {group.shape}")
                told = client.replay(group.id, rate=20)
                print(f"job {job.id} has {told.jobs} jobs replayed")
        return None


def main() -> None:
    """Enqueue the payments, and a second later the job that replays them."""
    with Client(database.url()) as client:
        client.enqueue_many([PayArgs(order, 100 * order) for order in range(1, PAYMENTS + 1)])
        client.enqueue(MendArgs(), delay=1)


if __name__ == "__main__":
    main()
