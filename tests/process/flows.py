"""An application of steps of workflows: they read the jobs before them, add to their own workflow, and tell the witness."""

from dataclasses import dataclass
from typing import Any

from fastq import Args, Client, Job, Registry, Worker
from tests.process.jobs import tell

registry = Registry()


@dataclass
class Fetch(Args, kind="fetch"):
    url: str
    more: int = 0


@dataclass
class Sum(Args, kind="sum"):
    text: str = ""


@dataclass
class AwaitingSum(Args, kind="awaiting-sum"):
    text: str = ""


@registry.register
class FetchWorker(Worker[Fetch]):
    def work(self, job: Job[Fetch]) -> Any:
        if job.args.more:
            assert job.workflow is not None
            with Client() as client:
                client.add_to_workflow(
                    job.workflow, [Fetch(f"{job.args.url}/{n}") for n in range(job.args.more)], after=[job.workflow_step or 0]
                )
        return {"length": len(job.args.url)}


@registry.register
class SumWorker(Worker[Sum]):
    def work(self, job: Job[Sum]) -> int:
        deps = job.deps
        tell(job, f"sum of {sorted(deps)}")
        return sum(dep.output["length"] for dep in deps.values())


@registry.register
class AwaitingSumWorker(Worker[AwaitingSum]):
    async def work(self, job: Job[AwaitingSum]) -> int:
        deps = await job.deps.read()
        tell(job, f"awaited {sorted(deps)}")
        return deps["a"].output["length"] + deps["b"].output["length"]
