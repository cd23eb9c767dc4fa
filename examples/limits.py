"""Limits: each account may have two calls to an API under way, in the whole cluster, and an export takes the place of both.

fastq dev examples.limits:registry              works the jobs; brings its own Postgres
python -m examples.limits                       enqueues calls of three accounts (in another terminal)

Meanwhile, in a third: fastq gates list, fastq gates set crm-api 1, fastq jobs why ID, fastq gates remove crm-api.
"""

import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Limit, Registry, Worker

registry = Registry()


@dataclass
class CallArgs(Args, kind="call", gates=[Limit("crm-api", at_most=2, by="account")]):
    account: str


@dataclass
class ExportArgs(Args, kind="export", gates=[Limit("crm-api", at_most=2, by="account", weight=2)]):  # the same gate
    account: str


def use_the_api(job: Job[CallArgs] | Job[ExportArgs], seconds: float) -> list[float]:
    """Take a while; return when it began and ended."""
    began = time.time()
    time.sleep(seconds)
    print(f"{job.kind:8} {job.args.account}")
    return [began, time.time()]


@registry.register
class CallWorker(Worker[CallArgs]):
    def work(self, job: Job[CallArgs]) -> list[float]:
        return use_the_api(job, 0.2)


@registry.register
class ExportWorker(Worker[ExportArgs]):
    def work(self, job: Job[ExportArgs]) -> list[float]:
        return use_the_api(job, 0.4)


def main() -> None:
    """Enqueue eight calls and an export for each of three accounts."""
    accounts = ("Ada", "Grace", "Barbara")
    with Client(database.url()) as client:
        client.enqueue_many([CallArgs(account) for _ in range(4) for account in accounts])
        exports = client.enqueue_many([ExportArgs(account) for account in accounts])
        client.enqueue_many([CallArgs(account) for _ in range(4) for account in accounts])
        print(client.why(exports[0]))


if __name__ == "__main__":
    main()
