"""Versions: jobs of an old program, whose args had another shape and whose kind another name, and one of a program to come.

fastq dev examples.versions:registry            works the jobs; brings its own Postgres
python -m examples.versions                     enqueues some of each (in another terminal)

Then: fastq jobs list --state waiting, fastq jobs why ID. The job of version 4 waits for a program that knows that version.
"""

from dataclasses import dataclass
from typing import Any

from examples import database
from fastq import Args, Client, Job, Kind, Registry, Worker, upgrade

registry = Registry()


@dataclass
class MailArgs(Args, kind="mail", version=3, aliases=["letter"]):
    to: list[str]
    urgent: bool


@upgrade(MailArgs, from_version=1)
def several_receivers(args: dict[str, Any]) -> dict[str, Any]:
    """Make a list of the one address."""
    return {"to": [args["address"]]}


@upgrade(MailArgs, from_version=2)
def urgency(args: dict[str, Any]) -> dict[str, Any]:
    """Older mails were never urgent."""
    return {**args, "urgent": False}


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> None:
        print(f"{job.kind} to {', '.join(job.args.to)}{', urgent' if job.args.urgent else ''}")


def main() -> None:
    """Enqueue jobs as programs of four versions would."""
    letter, first = (Kind(name, dict[str, str]) for name in ("letter", "mail"))
    second, fourth = (Kind("mail", dict[str, list[str]], version=version) for version in (2, 4))
    with Client(database.url()) as client:
        client.enqueue({"address": "Ada"}, kind=letter)
        client.enqueue({"address": "Grace"}, kind=first)
        client.enqueue({"to": ["Alan", "Kurt"]}, kind=second)
        client.enqueue(MailArgs(["Edsger"], urgent=True))
        client.enqueue({"everybody": ["yes"]}, kind=fourth)


if __name__ == "__main__":
    main()
