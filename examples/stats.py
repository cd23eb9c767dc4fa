"""Statistics: parcels are weighed, and some are sent back; another program tells how many, how long they waited and took.

fastq dev examples.stats:registry               works the jobs; brings its own Postgres
python -m examples.stats                        enqueues parcels (in another terminal)
python -m examples.stats show                   prints their statistics, some seconds later

Afterwards: fastq stats --by kind, fastq stats --kind parcel --step minute --json.
"""

import sys
import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Discard, Job, Registry, Worker

registry = Registry()

PARCELS, HEAVY = 60, 20


@dataclass
class ParcelArgs(Args, kind="parcel"):
    kilograms: int


@registry.register
class ParcelWorker(Worker[ParcelArgs]):
    def work(self, job: Job[ParcelArgs]) -> Discard | None:
        time.sleep(0.01)
        return Discard("too heavy") if job.args.kilograms > HEAVY else None


def show(client: Client) -> None:
    """Print the statistics of the last hour."""
    for row in client.stats(since=3600, by="kind"):
        print(f"{row.ended} of kind {row.kind}, {row.outcomes.get('discarded', 0)} of them sent back")
        if row.run.p50 is not None and row.wait.p95 is not None:
            print(f"half of them took up to {row.run.p50 * 1000:.0f} ms, and 95 of 100 waited up to {row.wait.p95:.2f} s")
        print(f"{row.run.timed} of {sum(row.outcomes.values())} attempts were timed")
    waiting = sum(queue.available for queue in client.living())
    print(f"{waiting} more wait")


def main() -> None:
    """Enqueue parcels, or show their statistics."""
    with Client(database.url()) as client:
        if len(sys.argv) > 1:
            show(client)
        else:
            client.enqueue_many([ParcelArgs(number % 25) for number in range(PARCELS)])


if __name__ == "__main__":
    main()
