"""An application whose jobs have processes of their own, and do to them what nobody should do to a process that others use."""

import asyncio
import ctypes
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pydantic

from fastq import (
    Args,
    Cancel,
    Crash,
    Discard,
    Hook,
    Isolate,
    Job,
    JobCancelled,
    JobTimeout,
    Kind,
    Registry,
    Retry,
    Snooze,
    Worker,
)
from fastq.events import Event, emit, subscribe
from fastq.work.isolated.child import Attempt
from tests.process.jobs import SHORT, WITNESS, AsyncNapWorker, NapWorker, PatientWorker, tell

registry = Registry()
asked = Registry()  # with a handler of crashes
for worker in (NapWorker, AsyncNapWorker, PatientWorker):
    registry.register(worker)

LIMIT = 96 * 2**20
LEFT: list[object] = []
"""What jobs leave in the memory of their process: each finds it empty."""


def hang_in_c() -> None:
    """Wait in C for a lock that this thread has itself, and keep the interpreter: no signal ends that, and no exception."""
    lock, lib = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    lib.pthread_mutex_lock(lock)
    lib.pthread_mutex_lock(lock)


@dataclass
class Alone(Args, kind="alone"):
    """What to do."""

    what: str
    seconds: float = 0.0


def outcome_of(job: Job[Alone]) -> object:
    """Come to an end of the sort that the job names."""
    what = job.args.what
    if what == "snooze":
        return Snooze(3600)
    if what == "retry":
        raise Retry(after=1800)
    if what == "cancel":
        raise Cancel("no need")
    if what == "discard":
        return Discard("no use")
    if what == "raise":
        raise ValueError("in the job")
    return {"id": job.id, "attempt": job.attempt, "tags": job.tags, "queue": job.queue, "priority": job.priority}


def damage(job: Job[Alone]) -> None:
    """Do to the process what the job names."""
    what = job.args.what
    if what == "segfault":
        ctypes.string_at(0)
    elif what == "abort":
        os.abort()
    elif what == "exit":
        os._exit(7)
    elif what == "hang":
        hang_in_c()
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "kill the nursery":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)


@registry.register
class AloneWorker(Worker[Alone]):
    """Does anything."""

    isolate = True
    timeout = SHORT

    def work(self, job: Job[Alone]) -> object:
        tell(job, "start")
        assert LEFT == []
        LEFT.append(job.id)
        damage(job)
        if job.args.seconds:
            time.sleep(job.args.seconds)
        tell(job, "end")
        return outcome_of(job)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        os.write(WITNESS, f"{time.monotonic_ns()} {os.getpid()} - 0 {attempt} retry_delay\n".encode())
        return 3600.0


@dataclass
class Long(Args, kind="long"):
    """How long, and what of a signal."""

    seconds: float
    how: str = "naps"


@registry.register
class LongWorker(Worker[Long]):
    """Takes its time."""

    isolate = True
    timeout = 60.0

    def work(self, job: Job[Long]) -> str | None:
        tell(job, "start")
        child = subprocess.Popen(["sleep", "3600"]) if job.args.how == "with a program" else None
        if child is not None:
            tell(job, f"program {child.pid}")
        if job.args.how == "hang":
            hang_in_c()
        if job.args.how == "leak":
            LEFT.append(bytearray(200 * 2**20))
        until = time.monotonic() + job.args.seconds
        try:
            while time.monotonic() < until:
                if job.args.how == "polite" and job.stopping:
                    return "stopping"
                time.sleep(0.01)
        except (JobCancelled, JobTimeout) as raised:
            tell(job, f"{type(raised).__name__} {job.cancelled}")
            raise
        tell(job, "end")
        return None


@dataclass
class LongAsync(Args, kind="long_async"):
    """How long."""

    seconds: float


@registry.register
class LongAsyncWorker(Worker[LongAsync]):
    """Takes its time on a loop of its own."""

    isolate = True
    timeout = 1.0

    async def work(self, job: Job[LongAsync]) -> int:
        tell(job, "start")
        try:
            await asyncio.sleep(job.args.seconds)
        except asyncio.CancelledError:
            tell(job, "cancelled")
            raise
        return os.getpid()


@dataclass
class Greedy(Args, kind="greedy"):
    """How many MiB, and how it is taken."""

    mebibytes: int
    how: str = "python"


class Seen(Hook):
    """Tells that it is around the job."""

    def around(self, job: Job[object]) -> Iterator[None]:
        tell(job, f"hook {os.getpid()}")
        yield


@registry.register
class GreedyWorker(Worker[Greedy]):
    """Takes memory."""

    isolate = Isolate(memory=LIMIT)
    hooks = (Seen(),)
    max_attempts = 1

    def work(self, job: Job[Greedy]) -> int:
        size = job.args.mebibytes * 2**20
        if job.args.how == "c":
            libc = ctypes.CDLL(None)
            libc.malloc.restype = ctypes.c_void_p
            ctypes.memset(libc.malloc(ctypes.c_size_t(size)), 1, size)
        else:
            LEFT.append(bytearray(size))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@dataclass
class Chatty(Args, kind="chatty"):
    """What to say."""

    text: str


@registry.register
class ChattyWorker(Worker[Chatty]):
    """Says how far it is, in all ways."""

    isolate = True

    def work(self, job: Job[Chatty]) -> list[object]:
        job.progress(0.5, job.args.text)
        print(f"printed {job.args.text}")
        logging.getLogger("app").warning("logged %s", job.args.text)
        title = Path("/proc/self/cmdline").read_text().rstrip("\0 ")
        return [
            title,
            threading.active_count(),
            [str(peer) for peer in peers()],
            "fastq board" in Path("/proc/self/maps").read_text(),
        ]


def peers() -> Iterator[object]:
    """Yield the other ends of all sockets that this process has; those of pairs have no name."""
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError), socket.socket(fileno=os.dup(int(descriptor.name))) as one:
            yield one.getpeername()


@dataclass
class Gather(Args, kind="gather"):
    """Nothing to say."""


@registry.register
class GatherWorker(Worker[Gather]):
    """Reads the jobs before it, and forks a process."""

    isolate = True

    def work(self, job: Job[Gather]) -> object:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            squares = pool.map(abs, [-1, -2])
        return {name: dep.output for name, dep in job.deps.items()} if job.workflow_step else squares


@dataclass
class Wordy(Args, kind="wordy"):
    """Whether the process dies after the words."""

    dies: bool


@registry.register
class WordyWorker(Worker[Wordy]):
    """Logs and prints, and has steps."""

    isolate = True
    logs = True

    def work(self, job: Job[Wordy]) -> int:
        logging.getLogger("app").warning("a record of job %d", job.id)
        print("a print")
        print("no end", end="", flush=True)
        if job.args.dies:
            os.abort()
        return job.step("count", lambda: 1) + job.step("count on", lambda: 2)


@dataclass
class Waiting(Args, kind="waiting"):
    """Nothing to say."""


@registry.register
class WaitingWorker(Worker[Waiting]):
    """Waits for a signal without a process."""

    isolate = True

    def work(self, job: Job[Waiting]) -> str:
        return str(job.wait_for("go", str).value)


@dataclass
class Sleepy(Args, kind="sleepy"):
    """Nothing to say."""


@registry.register
class SleepyWorker(Worker[Sleepy]):
    """Sleeps without a process, and goes on behind what it has done."""

    isolate = True

    async def work(self, job: Job[Sleepy]) -> list[int]:
        before = await job.step("before", os.getpid)
        await job.sleep(0.05)
        return [before, os.getpid()]


@dataclass
class Paid(Args, kind="paid"):
    """What happens after the commit."""

    then: str


@registry.register
class PaidWorker(Worker[Paid]):
    """Ends in a transaction of its own."""

    isolate = True
    max_attempts = 3

    def work(self, job: Job[Paid]) -> None:
        with job.transaction(outcome={"paid": job.id}) as conn:
            conn.execute("select 1")
            if job.args.then == "crash before":
                os.abort()
        if job.args.then == "crash":
            os.abort()


def own_attempt() -> Attempt:
    """Return the object by which this process talks to its worker process."""
    (attempt,) = [each for each in gc.get_objects() if type(each) is Attempt]
    return attempt


@dataclass
class Garbled(Args, kind="garbled"):
    """Nothing to say."""


@registry.register
class GarbledWorker(Worker[Garbled]):
    """Says what nobody understands in its first attempt, and goes on as if it had not."""

    isolate = True

    def work(self, job: Job[Garbled]) -> None:
        tell(job, "start")
        if job.attempt == 1:
            own_attempt()._line.sendall(b"\x01\0\0\0?")
            time.sleep(60)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 0.0


@dataclass
class Torn(Args, kind="torn"):
    """Nothing to say."""


@registry.register
class TornWorker(Worker[Torn]):
    """Says something while it is in the middle of saying something else, and was cancelled before it began."""

    isolate = True

    def work(self, job: Job[Torn]) -> None:
        def say(number: int, frame: FrameType | None) -> None:
            if frame is not None and frame.f_code is Attempt._send.__code__ and own._in_message:
                job.progress(0.5, "in the middle")

        own, text = own_attempt(), "x" * 2**22
        signal.signal(signal.SIGALRM, say)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        tell(job, "start")
        while signal.SIGTERM not in signal.sigpending():  # then the word about the cancellation has come
            time.sleep(0.01)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            emit("app.said", text=text)
            tell(job, "not told")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class SlowToWrite(pydantic.BaseModel):
    """Args that are as JSON again when there is such a file."""

    gate: str

    @pydantic.field_serializer("gate")
    def _written(self, gate: str) -> str:
        os.write(WITNESS, f"{time.monotonic_ns()} {os.getpid()} - 0 0 writes\n".encode())
        while not Path(gate).exists():
            time.sleep(0.01)
        return gate


@registry.worker(kind=Kind("slow_to_write", SlowToWrite), isolate=True, timeout=60.0)
def slow_to_write(job: Job[SlowToWrite]) -> None:
    """Take a minute."""
    tell(job, "start")
    time.sleep(60)


@dataclass
class Deafening(Args, kind="deafening"):
    """Nothing to say."""


@registry.worker(isolate=True, timeout=SHORT)
def deafening(job: Job[Deafening]) -> None:
    """Crash."""
    os.abort()


def hang_upon_that_crash(event: Event) -> None:
    """Never return from the event of that crash: it is told in the thread of the slot, when the process is gone."""
    if event.name == "job.crashed" and event.fields["kind"] == "deafening":
        threading.Event().wait()


if "WITNESS" in os.environ:  # in a worker process: a test that imports this module has no crashes to hang upon
    subscribe(hang_upon_that_crash)


@dataclass
class Risky(Args, kind="risky"):
    """What to do in the first attempts, and what the handler of crashes decides."""

    what: str
    decision: str
    times: int = 1


def take_risks(job: Job[Risky]) -> int:
    """Damage the process, or take more memory than there is."""
    tell(job, "work")
    if job.attempt <= job.args.times:
        if job.args.what == "malloc":
            libc = ctypes.CDLL(None)
            libc.malloc.restype = ctypes.c_void_p
            ctypes.memset(libc.malloc(ctypes.c_size_t(2 * LIMIT)), 1, 2 * LIMIT)
        damage(Job.of(Alone(job.args.what)))
    return job.attempt


@asked.worker(isolate=Isolate(memory=LIMIT), timeout=SHORT, max_attempts=4)
def risky(job: Job[Risky]) -> int:
    """Take risks."""
    return take_risks(job)


@dataclass
class RiskyAsync(Risky, kind="risky_async"):
    pass


@asked.worker(isolate=Isolate(memory=LIMIT), timeout=SHORT, max_attempts=4)
async def risky_async(job: Job[RiskyAsync]) -> int:
    """Take risks on a loop."""
    return take_risks(job)


@asked.on_crash
def on_crash(job: Job[Risky], crash: Crash) -> Snooze | Discard | Retry | None:
    """Tell of the crash, and decide as the job says."""
    tell(job, f"asked about {crash.cause} {crash.signal} {crash.crashes} {bool(crash.memory)}")
    tell(job, f"in {os.getpid()}")
    match job.args.decision:
        case "snooze":
            return Snooze(2.5)
        case "discard":
            return Discard("it ends its process")
        case "retry" if job.attempt == 2:
            return Retry(0.1)
    return None
