"""A batch worker: page views are enqueued one by one, and written a few hundred in one statement, for each site.

fastq dev examples.bulk:registry                works the jobs; brings its own Postgres
python -m examples.bulk                         enqueues the views of three sites (in another terminal)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()


@dataclass
class ViewArgs(Args, kind="view", queue="default"):
    site: str
    path: str


@registry.register
class ViewWorker(Worker[ViewArgs]):
    up_to = 200
    within = 0.3
    same = "site"

    def work_many(self, jobs: Sequence[Job[ViewArgs]]) -> dict[Job[ViewArgs], ValueError]:
        wrong = {job: ValueError(f"no path: {job.args.path!r}") for job in jobs if not job.args.path.startswith("/")}
        print(f"insert {len(jobs) - len(wrong)} views of {jobs[0].args.site}")  # stands for one statement
        return wrong  # all others are completed


def main() -> None:
    """Enqueue 500 views of each site, and one with a path that is none."""
    with Client(database.url()) as client:
        for site in ("ada.example", "grace.example", "barbara.example"):
            client.enqueue_many([ViewArgs(site, f"/{number % 20}") for number in range(500)])
        client.enqueue(ViewArgs("ada.example", "nowhere"), max_attempts=1)


if __name__ == "__main__":
    main()
