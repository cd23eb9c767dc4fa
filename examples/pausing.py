"""Pausing: calls to a provider that is down wait for three seconds, with the reason, while other jobs run.

fastq dev examples.pausing:registry             works the jobs; brings its own Postgres
python -m examples.pausing                      pauses one kind, and enqueues jobs of two (in another terminal)

Meanwhile, in a third: fastq pauses list, fastq jobs why ID, fastq pauses remove --kind call_provider.
"""

from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()


@dataclass
class ProviderArgs(Args, kind="call_provider"):
    number: int


@dataclass
class NoteArgs(Args, kind="note"):
    text: str


@registry.register
class ProviderWorker(Worker[ProviderArgs]):
    def work(self, job: Job[ProviderArgs]) -> None:
        print(f"call {job.args.number}")


@registry.register
class NoteWorker(Worker[NoteArgs]):
    def work(self, job: Job[NoteArgs]) -> None:
        print(job.args.text)


def main() -> None:
    """Pause the calls for a while, enqueue three of them and a note, and say why the first call waits."""
    with Client(database.url()) as client:
        client.pause(kind="call_provider", until=3, reason="the provider is down")
        first, *_ = client.enqueue_many([ProviderArgs(number) for number in range(3)])
        client.enqueue(NoteArgs("notes are written meanwhile"))
        print(client.why(first))


if __name__ == "__main__":
    main()
