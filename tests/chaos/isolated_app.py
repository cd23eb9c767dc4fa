"""The application of the chaos of isolated jobs: most of them behave, some crash, leak or hang in C; others run beside them."""

import ctypes
import hashlib
import os
from dataclasses import dataclass

from fastq import Args, Isolate, Job, Registry, Worker

registry = Registry()
LEAK = 200 * 2**20
LEFT: list[object] = []


@dataclass
class AloneArgs(Args, kind="chaos_alone"):
    """What the job does: "work", "crash", "leak" or "burst"."""

    what: str


@dataclass
class HangArgs(Args, kind="chaos_hang"):
    """It hangs."""

    what: str = "hang"


@dataclass
class BesideArgs(Args, kind="chaos_beside"):
    """Nothing to say."""


@dataclass
class BesideAsyncArgs(Args, kind="chaos_beside_async"):
    """Nothing to say."""


def work() -> str:
    """Do as much as a small job does."""
    return hashlib.pbkdf2_hmac("sha256", b"fastq", b"salt", 500).hex()


@registry.register
class AloneWorker(Worker[AloneArgs]):
    """A process for each job, so all is allowed."""

    isolate = Isolate(memory=2 * LEAK)
    max_attempts = 1

    def work(self, job: Job[AloneArgs]) -> list[object]:
        found = len(LEFT)
        LEFT.append(job.id)
        match job.args.what:
            case "crash":
                ctypes.string_at(0)
            case "leak":
                LEFT.append(b"x" * LEAK)
            case "burst":
                LEFT.append(b"x" * 3 * LEAK)
        return [found, os.getpid(), work()]


@registry.register
class HangWorker(Worker[HangArgs]):
    """Hangs in C, and keeps the interpreter."""

    isolate = True
    timeout = 1.0
    max_attempts = 1

    def work(self, job: Job[HangArgs]) -> None:
        lock, lib = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
        lib.pthread_mutex_lock(lock)
        lib.pthread_mutex_lock(lock)


@registry.register
class BesideWorker(Worker[BesideArgs]):
    """Runs in a thread of the worker process."""

    max_attempts = 1

    def work(self, job: Job[BesideArgs]) -> int:
        work()
        return os.getpid()


@registry.register
class BesideAsyncWorker(Worker[BesideAsyncArgs]):
    """Runs on the event loop of the worker process."""

    max_attempts = 1

    async def work(self, job: Job[BesideAsyncArgs]) -> int:
        return os.getpid()
