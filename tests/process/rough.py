"""An application whose jobs are rough with the process that they run in: with its event loop, its signals, its forks."""

import asyncio
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import SHORT, WITNESS, AsyncNapWorker, NapWorker, OutcomeWorker, PatientWorker, tell

registry = Registry()
for worker in (NapWorker, AsyncNapWorker, OutcomeWorker, PatientWorker):
    registry.register(worker)


async def leave():
    """End the program, as a function does that was written for the command line."""
    sys.exit("no such file")


@dataclass
class OnLoop(Args, kind="on_loop"):
    what: str


@registry.register
class OnLoopWorker(Worker[OnLoop]):
    """Does to the loop what only its owner should."""

    timeout = 1.0
    max_attempts = 1

    async def work(self, job: Job[OnLoop]) -> None:
        tell(job, "start")
        what = job.args.what
        if what == "exit in a task":
            await asyncio.gather(leave(), asyncio.sleep(60))
        elif what == "exit in a callback":
            asyncio.get_running_loop().call_soon(sys.exit, "no such file")
            await asyncio.sleep(0.01)
        elif what == "stop":
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.01)
        elif what == "block":
            time.sleep(60)  # noqa: ASYNC251 - that is what it is about
        tell(job, "end")


@dataclass
class Undecided(Args, kind="undecided"):
    """Fails, and cannot say when to try again."""


@registry.register
class UndecidedWorker(Worker[Undecided]):
    timeout = SHORT

    def work(self, job: Job[Undecided]) -> None:
        tell(job, "start")
        raise ValueError(SimpleNamespace(queue=job.queue, id=job.id, attempt=job.attempt))

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        tell(error.args[0], "decide")
        time.sleep(60)  # asks a service that does not answer
        return 0.0


@dataclass
class AsyncUndecided(Args, kind="async_undecided"):
    """The same on the loop."""


@registry.register
class AsyncUndecidedWorker(Worker[AsyncUndecided]):
    timeout = SHORT
    retry_delay = UndecidedWorker.retry_delay

    async def work(self, job: Job[AsyncUndecided]) -> None:
        tell(job, "start")
        raise ValueError(SimpleNamespace(queue=job.queue, id=job.id, attempt=job.attempt))


def fork(job, how):
    """Fork a child that ends like this, and tell its exit code. Return in it, if that is how."""
    child = os.fork()
    if child:
        give_up = time.monotonic() + 5
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < give_up:
            time.sleep(0.005)
        tell(job, f"child ended with {os.waitstatus_to_exitcode(ended[1])}" if ended[0] else "child lives")
        if not ended[0]:
            os.kill(child, signal.SIGKILL)
        return True
    if how == "exit":
        sys.exit(7)
    if how == "raise":
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - it ends
        raise ValueError("in the child")
    return False


@dataclass
class Fork(Args, kind="fork"):
    how: str


@registry.register
class ForkWorker(Worker[Fork]):
    def work(self, job: Job[Fork]) -> None:
        if fork(job, job.args.how):
            tell(job, "end")


@dataclass
class AsyncFork(Args, kind="async_fork"):
    how: str


@registry.register
class AsyncForkWorker(Worker[AsyncFork]):
    async def work(self, job: Job[AsyncFork]) -> None:
        loop = asyncio.get_running_loop()
        under_way = loop.create_future()
        loop.call_later(0.05, under_way.set_result, None)
        if fork(job, job.args.how):
            tell(job, "end")
        elif job.args.how.startswith("await"):
            sys.stderr = Path(os.devnull).open("w")  # noqa: ASYNC230, SIM115 - it ends
            await (asyncio.sleep(0.01) if job.args.how == "await" else under_way)
            tell(job, "awaited in the child")


@dataclass
class Signals(Args, kind="signals"):
    """Sends signals to processes that it started."""


@registry.register
class SignalsWorker(Worker[Signals]):
    def work(self, job: Job[Signals]) -> None:
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        process.start()
        process.terminate()  # it may not have come to anything yet
        process.join(3)
        tell(job, f"terminated: {process.exitcode}")
        process.kill()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
            program = subprocess.Popen(["sleep", "60"])
            program.send_signal(number)
            try:
                tell(job, f"{number.name}: {program.wait(1)}")
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


@dataclass
class Picky(Args, kind="picky"):
    """Ends the program when it does not like what it is made of."""

    number: int

    def __post_init__(self):
        if self.number == 13:
            sys.exit("bad args")


@registry.register
class PickyWorker(Worker[Picky]):
    def work(self, job: Job[Picky]) -> None:
        tell(job, "start")


POOL = ThreadPoolExecutor()


@dataclass
class CloseAll(Args, kind="close_all"):
    """Closes what it has not opened, as a program does that becomes a service."""


@registry.register
class CloseAllWorker(Worker[CloseAll]):
    def work(self, job: Job[CloseAll]) -> None:
        tell(job, "start")
        if job.attempt == 1:
            sys.excepthook = lambda _, error, __: print("told:", error)
            POOL.submit(time.sleep, 3600)  # Python waits for it at its end
            for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
                if fd > sys.stderr.fileno() and fd != WITNESS:
                    with suppress(OSError):  # of the list itself
                        os.close(fd)
            time.sleep(60)
        tell(job, "end")


@dataclass
class TakeDescriptors(Args, kind="take_descriptors"):
    """Leaves its process none, as a leak does in the end."""


@registry.register
class TakeDescriptorsWorker(Worker[TakeDescriptors]):
    def work(self, job: Job[TakeDescriptors]) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        tell(job, "end")


@dataclass
class CloseBehind(Args, kind="close_behind"):
    """Ends well, and leaves its process without what it had open."""


@registry.register
class CloseBehindWorker(Worker[CloseBehind]):
    def work(self, job: Job[CloseBehind]) -> None:
        tell(job, "start")
        sys.excepthook = lambda _, error, __: print("told:", error)
        os.closerange(3, WITNESS)  # two calls: the job has ended before anybody notices
        os.closerange(WITNESS + 1, 1_024)


@dataclass
class DieBehind(Args, kind="die_behind"):
    """Ends well, and leaves a thread that ends its process soon after that."""


@registry.register
class DieBehindWorker(Worker[DieBehind]):
    def work(self, job: Job[DieBehind]) -> None:
        tell(job, "start")
        threading.Timer(0.3, os._exit, [7]).start()
