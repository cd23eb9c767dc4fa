"""The application that the supervisors of these tests run: jobs that tell what they do, and jobs that behave badly.

Each job writes lines to a file (the variable WITNESS names it), one write a line, so that a SIGKILL loses nothing: when,
which process, which job and attempt, what. That is what the database's own word is held against.
"""

import asyncio
import ctypes
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fastq import Args, Cancel, Job, Registry, Snooze, Worker

WITNESS = os.open(os.environ.get("WITNESS", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
SHORT = 0.4  # s; the timeout of jobs that outlast it on purpose: some ticks of the watchdog

registry = Registry()


def tell(job, what):
    """Append a line for the test."""
    line = f"{time.monotonic_ns()} {os.getpid()} {job.queue} {job.id} {job.attempt} {what}\n"
    os.write(WITNESS, line.encode())


@dataclass
class Nap(Args, kind="nap"):
    seconds: float = 0.0
    words: list[str] = field(default_factory=list)


@registry.register
class NapWorker(Worker[Nap]):
    def work(self, job: Job[Nap]) -> None:
        tell(job, "start")
        if job.args.seconds:
            time.sleep(job.args.seconds)
        tell(job, "end")


@dataclass
class Gated(Args, kind="gated"):
    gate: str


@registry.register
class GatedWorker(Worker[Gated]):
    """Executes until there is such a file."""

    def work(self, job: Job[Gated]) -> None:
        tell(job, "start")
        while not Path(job.args.gate).exists():
            time.sleep(0.01)
        tell(job, "end")


@dataclass
class AsyncNap(Args, kind="async_nap"):
    seconds: float = 0.0


@registry.register
class AsyncNapWorker(Worker[AsyncNap]):
    async def work(self, job: Job[AsyncNap]) -> None:
        tell(job, "start")
        await asyncio.sleep(job.args.seconds)
        tell(job, "end")


@dataclass
class Outcome(Args, kind="outcome"):
    what: str


@registry.register
class OutcomeWorker(Worker[Outcome]):
    """Ends as it is told to."""

    def work(self, job: Job[Outcome]) -> object:
        tell(job, "start")
        what = job.args.what
        if what == "snooze" and job.created_at.timestamp() > time.time() - 0.1:
            return Snooze(0.1)
        returned = {"value": {"sum": 3}, "set": {datetime(2026, 1, 1, tzinfo=UTC)}, "no json": object(), "nul": "a\0b"}
        returned |= {"cancel": Cancel("not needed"), "large": "x" * 300_000, "escape": "\\u0000 \0"}
        raised = {"system exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "generator exit": GeneratorExit()}
        if what in raised:
            raise raised[what]
        if what == "raise mute":
            raise Mute
        if what.startswith("raise"):
            raise ValueError({"raise nul": "a\0b", "raise surrogate": "a\ud800b", "raise long": "x" * 100_000}.get(what, what))
        return returned.get(what)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        if isinstance(error, Mute) or "raise exit delay" in str(error):
            raise SystemExit(4)
        if "raise bad delay" in str(error):
            raise RuntimeError("no idea how long")
        return float("nan") if "raise nan delay" in str(error) else 0.05 if "raise soon" in str(error) else 3600.0


class Mute(Exception):
    """Cannot say what is wrong."""

    def __str__(self):
        raise AttributeError("no text")


@dataclass
class Hang(Args, kind="hang"):
    how: str


@registry.register
class HangWorker(Worker[Hang]):
    timeout = SHORT

    def work(self, job: Job[Hang]) -> None:
        tell(job, "start")
        how = job.args.how
        try:
            if how == "loop":
                while True:
                    pass
            elif how == "naps":
                while True:
                    time.sleep(0.001)
            elif how == "sleep":
                time.sleep(60)
            elif how == "interpreter lock":
                ctypes.PyDLL(None).sleep(60)
            elif how.startswith("polite"):
                _end_by_itself(job)
            elif how == "swallow once":
                _swallow()
            elif how == "swallow":
                while True:
                    _swallow()
        finally:
            tell(job, "finally")

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 3600.0


def _end_by_itself(job):
    while not job.cancelled:
        time.sleep(0.001)
    tell(job, "saw")
    time.sleep(0.1)  # what it does in the end
    if job.args.how == "polite":
        raise TimeoutError("ended by itself")


def _swallow():
    try:
        while True:
            time.sleep(0.001)
    except BaseException:  # noqa: BLE001 - what users write
        pass


@dataclass
class Selfish(Args, kind="selfish"):
    """Hangs with a lock that its own policy asks for."""


@registry.register
class SelfishWorker(Worker[Selfish]):
    timeout = SHORT
    lock = threading.Lock()

    def work(self, job: Job[Selfish]) -> None:
        tell(job, "start")
        with self.lock:
            while True:
                _swallow()

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        with self.lock:
            return 3600.0


@dataclass
class AsyncHang(Args, kind="async_hang"):
    how: str


@registry.register
class AsyncHangWorker(Worker[AsyncHang]):
    timeout = SHORT

    async def work(self, job: Job[AsyncHang]) -> None:
        tell(job, "start")
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                tell(job, "cancelled")
                if job.args.how != "swallow":
                    raise

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 3600.0


@dataclass
class Patient(Args, kind="patient"):
    seconds: float
    later: float | None = None  # seconds of later attempts; None: the same


@registry.register
class PatientWorker(Worker[Patient]):
    timeout = None

    def work(self, job: Job[Patient]) -> str:
        tell(job, "start")
        args = job.args
        give_up = time.monotonic() + (args.seconds if job.attempt == 1 or args.later is None else args.later)
        while time.monotonic() < give_up and not job.cancelled:
            time.sleep(0.005)
        return "told" if job.cancelled else "done"


@dataclass
class Edge(Args, kind="edge"):
    seconds: float


@registry.register
class EdgeWorker(Worker[Edge]):
    """Ends about when its timeout does."""

    timeout = 0.05

    def work(self, job: Job[Edge]) -> None:
        give_up = time.monotonic() + job.args.seconds
        try:
            while time.monotonic() < give_up:
                time.sleep(0.002)
        finally:
            tell(job, "ran")

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 3600.0


@dataclass
class Poison(Args, kind="poison"):
    how: str
    after: float = 0.0


@registry.register
class PoisonWorker(Worker[Poison]):
    """Takes its process with it."""

    def work(self, job: Job[Poison]) -> None:
        tell(job, "start")
        time.sleep(job.args.after)
        if job.args.how.startswith("exit"):
            os._exit(int(job.args.how.removeprefix("exit") or 7))
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)  # death comes first


@dataclass
class Dice(Args, kind="dice"):
    """Draw a number in a process of your own: the other one is kept busy."""


@registry.register
class DiceWorker(Worker[Dice]):
    def work(self, job: Job[Dice]) -> float:
        tell(job, "start")
        time.sleep(0.3)  # so that this process is busy while the other takes one
        return random.random()


@dataclass
class Rounds(Args, kind="rounds"):
    """Goes round until its process was told to stop."""


@registry.register
class RoundsWorker(Worker[Rounds]):
    def work(self, job: Job[Rounds]) -> str:
        tell(job, "start")
        while not job.stopping:
            time.sleep(0.01)
        return f"a good end, cancelled: {job.cancelled}"


@dataclass
class AsyncRounds(Args, kind="async_rounds"):
    """The same on the event loop."""


@registry.register
class AsyncRoundsWorker(Worker[AsyncRounds]):
    async def work(self, job: Job[AsyncRounds]) -> str:
        tell(job, "start")
        while not job.stopping:  # noqa: ASYNC110 - as a job does that has something to do between two looks
            await asyncio.sleep(0.01)
        return f"a good end, cancelled: {job.cancelled}"


@dataclass
class Late(Args, kind="late"):
    """Known to `registry_with_late` alone."""

    seconds: float = 0.0


class LateWorker(Worker[Late]):
    def work(self, job: Job[Late]) -> None:
        tell(job, "start")
        time.sleep(job.args.seconds)


registry_with_late = Registry()
registry_with_late.register(LateWorker)
