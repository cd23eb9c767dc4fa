"""A workflow: fetch the orders of a day, sum each region beside the others, and mail a report when all regions are done.

fastq dev examples.workflow:registry            works the jobs; brings its own Postgres
python -m examples.workflow                     enqueues the workflow (in another terminal)

Meanwhile, in a third: fastq workflows list, fastq workflows show 1.
"""

import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Cancel, Client, Job, Registry, Worker, Workflow

registry = Registry()
REGIONS = ("north", "east", "south", "west", "nowhere")


@dataclass
class FetchArgs(Args, kind="fetch_orders"):
    day: str


@dataclass
class SumArgs(Args, kind="sum_region"):
    region: str


@dataclass
class ReportArgs(Args, kind="mail_report"):
    to: str


@dataclass
class SweepArgs(Args, kind="sweep"):
    day: str


@registry.register
class FetchWorker(Worker[FetchArgs]):
    def work(self, job: Job[FetchArgs]) -> dict[str, list[int]]:
        time.sleep(0.2)
        print(f"{job.args.day}: fetched")
        return {region: [100 * place, 250] for place, region in enumerate(REGIONS[:4])}


@registry.register
class SumWorker(Worker[SumArgs]):
    def work(self, job: Job[SumArgs]) -> int | Cancel:
        orders: dict[str, list[int]] = job.deps["fetch"].output  # of the job before this one
        if job.args.region not in orders:
            return Cancel("no orders")
        return sum(orders[job.args.region])


@registry.register
class ReportWorker(Worker[ReportArgs]):
    def work(self, job: Job[ReportArgs]) -> int:
        total = 0
        for name, region in job.deps.items():
            print(f"{name:8} {region.state:9} {region.output}")
            total += region.output or 0
        print(f"to {job.args.to}: {total}")
        return total


@registry.register
class SweepWorker(Worker[SweepArgs]):
    def work(self, job: Job[SweepArgs]) -> None:
        print(f"{job.args.day}: swept")


def main() -> None:
    """Enqueue the workflow."""
    flow = Workflow("daily", on_finish=SweepArgs("2026-11-19"))
    fetch = flow.add(FetchArgs("2026-11-19"), name="fetch")
    regions = [flow.add(SumArgs(region), name=region, after=fetch) for region in REGIONS]
    flow.add(ReportArgs("ada@example.org"), name="report", after=[region.ended for region in regions])
    with Client(database.url()) as client:
        started = client.enqueue_workflow(flow)
        print(f"fastq workflows show {started.id}")


if __name__ == "__main__":
    main()
