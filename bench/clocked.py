"""A supervisor whose jobs write down when they start, for the programs that measure single jobs: hops.py, trickle.py.

Imported by the program that measures, by the one that it starts as a supervisor, and by that one's worker processes. A record is
two whole numbers, appended to the file that FASTQ_BENCH_CLOCK names; a write of so few bytes is whole, whoever else appends. The
clock is the monotonic one, which is one for all processes of a machine.
"""

import os
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from fastq import log
from fastq.args.kinds import Args
from fastq.bench import route
from fastq.bench.child import Order, order
from fastq.config import Config
from fastq.host.supervisor import Supervisor
from fastq.jobs.job import Job
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker

ROOT = Path(__file__).parent.parent
FILE = "FASTQ_BENCH_CLOCK"
RECORD = struct.Struct("qq")
registry = Registry()
_opened: dict[int, int] = {}  # by process: a child inherits what its parent has opened


def note(number: int, at: int) -> None:
    """Append a record."""
    process = os.getpid()
    fd = _opened.get(process)
    if fd is None:
        fd = _opened[process] = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND)
    os.write(fd, RECORD.pack(number, at))


@dataclass
class ClockedArgs(Args, kind="bench.clocked"):
    """The number under which the start is written down."""

    number: int


@registry.register
class ClockedWorker(Worker[ClockedArgs]):
    """Write down when `work` began."""

    def work(self, job: Job[ClockedArgs]) -> None:
        """Look at the clock first."""
        note(job.args.number, time.monotonic_ns())


def serve(target: str = "bench.clocked:registry") -> None:
    """Be a supervisor until stdin ends."""
    given = order()
    log.set_up(given.config)
    supervisor = Supervisor(given.config, target, given.config.database_url, ROOT)
    shown = supervisor._board  # noqa: SLF001 - as fastq/bench/route.py, which tells when all processes are there
    threading.Thread(target=route._watch, args=(shown, given.config.process_count, 0), daemon=True).start()  # noqa: SLF001
    sys.exit(supervisor.run())


class Served:
    """A program that serves, or enqueues: its `main` is a call such as `bench.clocked.serve()`."""

    def __init__(self, main: str, config: Config, file: Path, **numbers: int) -> None:
        module, _, call = main.rpartition(".")
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from {module} import {call.partition('(')[0]}; {call}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, FILE: str(file), "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
        )
        self.say(msgspec.json.encode(Order(config, numbers)).decode())

    def say(self, line: str) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> list[str]:
        """Wait for a line, and return its words."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().split()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60.0)
        self.process.stdout.close()


def percentile(ordered: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
