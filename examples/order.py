"""Order: each stream has a single writer; where an event cannot be written its stream stands still until somebody releases it.

fastq dev examples.order:registry               works the jobs; brings its own Postgres
python -m examples.order                        enqueues the events of three streams (in another terminal)

Meanwhile, in a third: fastq gates held, fastq jobs why ID, fastq gates release streams '"Grace"'. In the example a job does that,
in the place of an operator who reads `gate.held` in the log.
"""

import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Ordered, Registry, Snooze, Worker

registry = Registry()


@dataclass
class WriteArgs(Args, kind="write", gates=[Ordered("streams", by="stream", when_discarded="hold")]):
    stream: str
    event: int
    broken: bool = False


@dataclass
class ReleaseArgs(Args, kind="release"):
    pass


@registry.register
class WriteWorker(Worker[WriteArgs]):
    max_attempts = 1

    def work(self, job: Job[WriteArgs]) -> list[float]:
        began = time.time()
        if job.args.broken:
            raise ValueError(f"event {job.args.event} of {job.args.stream} cannot be written")
        time.sleep(0.05)
        print(f"{job.args.stream:8} event {job.args.event}")
        return [began, time.time()]


@registry.register
class ReleaseWorker(Worker[ReleaseArgs]):
    def work(self, job: Job[ReleaseArgs]) -> Snooze | None:  # noqa: ARG002 - it has no args
        """Release the keys that are held; look again a little later until there is one."""
        with Client(database.url()) as client:
            held = client.held_keys()
            for key in held:
                print(f"{key.key} is held by job {key.job}; going on without it")
                client.release_key(key.gate, "Grace")
        return None if held else Snooze(0.5)


def main() -> None:
    """Enqueue five events for each of three streams; the third of one of them cannot be written."""
    streams = ("Ada", "Grace", "Barbara")
    with Client(database.url()) as client:
        events = [WriteArgs(stream, event, (stream, event) == ("Grace", 3)) for event in range(1, 6) for stream in streams]
        client.enqueue_many(events)
        client.enqueue(ReleaseArgs())


if __name__ == "__main__":
    main()
