"""A batch: mails to many people, some of which split into more; one job when all have ended, another at the first that fails.

fastq dev examples.batch:registry               works the jobs; brings its own Postgres
python -m examples.batch                        enqueues the batch (in another terminal)

Meanwhile, in a third: fastq workflows list, fastq workflows show 1, fastq workflows retry 1.
"""

from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()
client = Client(database.url())


@dataclass
class MailArgs(Args, kind="mail_one", max_attempts=1):
    to: str


@dataclass
class ListArgs(Args, kind="mail_list"):
    members: list[str]


@dataclass
class TellArgs(Args, kind="tell"):
    text: str


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> None:
        if "@" not in job.args.to:
            raise ValueError(f"{job.args.to}: no address")
        print(f"mail to {job.args.to}")


@registry.register
class ListWorker(Worker[ListArgs]):
    def work(self, job: Job[ListArgs]) -> None:
        client.add_to_workflow(job.workflow, [MailArgs(to) for to in job.args.members])  # the batch cannot end meanwhile


@registry.register
class TellWorker(Worker[TellArgs]):
    def work(self, job: Job[TellArgs]) -> None:
        row = client.workflow(job.workflow)
        print(f"{job.args.text}: {row.completed} of {row.steps}" if row else job.args.text)


def main() -> None:
    """Enqueue three mails and a list of more."""
    ended, failed = TellArgs("all mails are out"), TellArgs("a mail has failed")
    with client, client.batch("mails", on_finish=ended, on_discard=failed) as batch:
        for to in ("ada@example.org", "grace@example.org", "nobody"):
            batch.add(MailArgs(to))
        batch.add(ListArgs([f"reader-{number}@example.org" for number in range(20)]))


if __name__ == "__main__":
    main()
