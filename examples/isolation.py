"""Jobs in processes of their own: one crashes, one takes too much memory, one hangs in C, and the others complete.

fastq dev examples.isolation:registry           works the jobs; brings its own Postgres
python -m examples.isolation                    enqueues six thumbnails (in another terminal)

`fastq dead` shows afterwards why three of them have no thumbnail.
"""

import ctypes
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Isolate, Job, Registry, Worker

registry = Registry()


@dataclass
class ThumbnailArgs(Args, kind="thumbnail"):
    name: str


@registry.register
class ThumbnailWorker(Worker[ThumbnailArgs]):
    isolate = Isolate(memory=128 * 2**20)
    timeout = 1.0
    max_attempts = 1

    def work(self, job: Job[ThumbnailArgs]) -> None:
        decode(job.args.name)
        print(f"thumbnail of {job.args.name}")


def decode(name: str) -> None:
    """Stand for a library in C that does not bear all files."""
    match name:
        case "broken.png":
            ctypes.string_at(0)
        case "bomb.png":
            bytearray(2**30)
        case "endless.png":
            lock, lib = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
            lib.pthread_mutex_lock(lock)
            lib.pthread_mutex_lock(lock)  # waits for itself, and keeps the interpreter


def main() -> None:
    """Enqueue six thumbnails."""
    with Client(database.url()) as client:
        names = ("whale", "broken", "tiger", "bomb", "endless", "heron")
        client.enqueue_many([ThumbnailArgs(f"{name}.png") for name in names])
    print("enqueued 6 thumbnails")


if __name__ == "__main__":
    main()
