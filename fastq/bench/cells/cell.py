"""A cell as data, the systems that it is asked of, and the stage on which that happens.

Run in the main thread of the program that measures; a `Stage` owns the programs that it starts until the end of the call. A cell
is a name, a question, the figures that it answers with, and a function of a stage; `table.py` lists them. A figure is a number
with its unit in its name. The steps that cells share are here: fill, start, go, wait until no job is left, read the meters.

Invariant: the start of programs is never measured: each says when it is ready, and the clock starts when it is told to go.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fastq.bench.cells.meters import Spent, between, resident
from fastq.errors import FastqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fastq.bench.cells.meters import Meters
    from fastq.bench.cells.programs import Program

Figures = dict[str, float]

FEWEST = 200
"""Jobs of a cell at least, however small it was asked to be."""

FILLED_AT_ONCE = 1_000
"""Jobs of a call that fills, at most: what a program may collect before it writes. A guess."""

GLANCE, SHARE = 0.01, 10
"""Seconds between two looks whether a job is left; and a look takes a SHARE-th of the time between two at most."""

PATIENCE = 90.0
"""Seconds in which a cell must come to its end. None takes more than ten on a machine that is not overloaded."""


class Cell(NamedTuple):
    """A question about real work, and how it is answered."""

    name: str
    question: str
    figures: Mapping[str, str]  # name -> its explanation; the first is the one that systems are compared by
    measure: Callable[[Stage], Figures]
    least: bool = False  # whether the first figure is better when it is less


class System(Protocol):
    """A queue with its programs. `rate` is about what it works per second: it decides how many jobs a cell takes."""

    name: str
    rate: int
    slots: int  # jobs at a time of a process, as it is best for jobs that do nothing
    procs: int  # processes of a host

    def empty(self) -> None:
        """Make it new, without jobs."""

    def settle(self) -> None:
        """Vacuum and analyse after a filling, as the server would have done some time later."""

    def unfinished(self) -> bool:
        """Say whether a job is left that has not ended."""
        ...

    def meters(self) -> Meters:
        """Return the meters of its server."""
        ...

    def enqueuer(self, order: dict[str, Any]) -> Program:
        """Start a program that enqueues."""
        ...

    def host(self, order: dict[str, Any]) -> list[Program]:
        """Start the programs of one host that works jobs."""
        ...


class Run(NamedTuple):
    """Jobs that were worked off: their number, the time, and the costs."""

    jobs: int
    seconds: float
    spent: Spent
    resident: int

    @property
    def jobs_per_s(self) -> float:
        """Return the rate."""
        return self.jobs / self.seconds

    def figures(self) -> Figures:
        """Return all as figures."""
        return {"jobs_per_s": self.jobs_per_s, **per_job(self.spent, self.jobs), "memory_mb": self.resident / 2**20}


COSTS = {
    "worker_us": "CPU of the programs that work, for a job",
    "server_us": "CPU of the database server, for a job",
    "wal_bytes": "written to the WAL, for a job",
    "transactions": "of the database, for a job",
    "memory_mb": "of the programs that work, what is shared counted once",
    "others_percent": "of the machine that something else took meanwhile",
}
"""Figures that most cells have."""

RATE = {"jobs_per_s": "jobs from the word to go until none is left", **COSTS}


def per_job(spent: Spent, jobs: int) -> Figures:
    """Return the costs of each job."""
    found = {"worker_us": spent.workers / jobs * 1e6, "wal_bytes": spent.wal / jobs, "transactions": spent.transactions / jobs}
    if spent.server is not None:
        found["server_us"] = spent.server / jobs * 1e6
    return found | {"others_percent": spent.others * 100}


class Late(FastqError):
    """The jobs were due before the system was ready to work them: it needs a longer lead."""


class Stage:
    """Where cells are asked: a system, and how large it is to be (1: as documented)."""

    def __init__(self, system: System, scale: float = 1.0) -> None:
        self.system = system
        self.scale = scale
        self.samples: list[float] = []  # single latencies in milliseconds, where a cell has some

    def size(self, seconds: float, most: float = float("inf")) -> int:
        """Return how many jobs this system works in about so many seconds, if it works no more than `most` in one."""
        return max(FEWEST, int(min(self.system.rate, most) * seconds * self.scale))

    def fill(self, job: str, jobs: int, queues: Sequence[str] = ("default",), due: float = 0.0, path: str = "") -> None:
        """Enqueue jobs while nobody works, as many into each queue as into any other."""
        batch = max(1, min(FILLED_AT_ONCE, jobs // len(queues)))
        with self.system.enqueuer(ordered(job, jobs, queues=list(queues), due=due, path=path, batch=batch)) as program:
            program.hear("ready")
            program.say("go")
            told = program.hear("done")
        if told["jobs"] != jobs:
            raise FastqError(f"{self.system.name} enqueued {told['jobs']} of {jobs} jobs")
        self.system.settle()

    @contextmanager
    def working(
        self, job: str, queues: Sequence[str] = ("default",), *, slots: int = 0, procs: int = 0, hosts: int = 1
    ) -> Iterator[list[Program]]:
        """Give the programs of some hosts, ready to be told to go. Slots are those of each queue in each process."""
        order = {
            "verb": "work",
            "job": job,
            "queues": list(queues),
            "slots": slots or self.system.slots,
            "procs": procs or self.system.procs,
        }
        with ExitStack() as running:
            programs = []
            for _ in range(hosts):
                programs += [running.enter_context(program) for program in self.system.host(order)]
            for program in programs:
                program.hear("ready")
            yield programs

    def drained(self, job: str, jobs: int, queues: Sequence[str] = ("default",), lead: float = 0.0, **working: int) -> Run:
        """Fill, start, go; return when nothing is left. With a lead, the jobs are due that long after their filling began."""
        self.system.empty()
        due = time.time() + lead if lead else 0.0
        self.fill(job, jobs, queues, due)
        with self.working(job, queues, **working) as programs:
            pids, meters = [program.pid for program in programs], self.system.meters()
            if not self.system.unfinished():
                raise FastqError(
                    f"none of {jobs} jobs of {self.system.name} waits: they were worked before they should have been"
                )
            if lead:
                go(programs)
                if time.time() > due:
                    raise Late(f"{jobs} jobs of {self.system.name} were due before it was ready, in {lead:.0f} s")
                time.sleep(due - time.time())
            before = meters.read(pids)
            if not lead:
                go(programs)
            self.wait()
            ended = time.monotonic()
            after = meters.read(pids)
            memory = resident(pids)
        return Run(jobs, ended - before.at, between(before, after), memory)

    def wait(self) -> None:
        """Wait until nothing is left."""
        give_up = time.monotonic() + PATIENCE
        while True:
            began = time.monotonic()
            if not self.system.unfinished():
                return
            if began > give_up:
                raise FastqError(f"{self.system.name} did not end its jobs within {PATIENCE:.0f} s")
            time.sleep(max(GLANCE, (time.monotonic() - began) * SHARE))


def go(programs: Sequence[Program]) -> None:
    """Tell programs to go."""
    for program in programs:
        program.say("go")


def ordered(job: str, count: int, **more: Any) -> dict[str, Any]:
    """Return an order to enqueue: as fast as it can, one by one, in one thread, unless `more` says otherwise."""
    order = {"verb": "enqueue", "job": job, "count": count, "queues": ["default"], "batch": 1, "threads": 1, "first": 0}
    return order | {"rate": 0.0, "gap": None, "seconds": 0.0, "due": 0.0, "sent": "", "path": ""} | more
