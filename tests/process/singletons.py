"""The application of the tests of singletons: they tell what they do as jobs do, and ask `once` for one item after the other.

In the witness's lines a singleton's name stands for the queue and its term for the job.
"""

import ctypes
import os
import signal
import time
from pathlib import Path

from fastq import Registry
from fastq.errors import LeaseLost
from fastq.leases.singleton import Singleton
from tests.process.jobs import WITNESS, PatientWorker

registry = Registry()


def tell(singleton: Singleton, what: str) -> None:
    """Append a line for the test."""
    os.write(WITNESS, f"{time.monotonic_ns()} {os.getpid()} {singleton.name} {singleton.term} 0 {what}\n".encode())


@registry.singleton("projection:orders")
def project(singleton: Singleton) -> None:
    tell(singleton, "start")
    number = 0
    try:
        while not singleton.wait(0.02):
            number += 1
            tell(singleton, "acted" if singleton.once(f"{singleton.term}-{number}") else "again")
        singleton.once("one more")
    except LeaseLost:
        tell(singleton, "refused")
    finally:
        tell(singleton, "end")


@registry.singleton("mails")
async def send(singleton: Singleton) -> None:
    tell(singleton, "start")
    assert await singleton.wait_async(60)
    tell(singleton, "end")


@registry.singleton("stubborn")
def stubborn(singleton: Singleton) -> None:
    tell(singleton, "start")
    while True:
        try:
            time.sleep(0.01)
        except BaseException:  # noqa: BLE001 - what users write
            tell(singleton, "swallowed")


registry_that_forks = Registry()


@registry_that_forks.singleton("forking")
def fork(singleton: Singleton) -> None:
    child = os.fork()
    if not child:
        return
    give_up = time.monotonic() + 5
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < give_up:
        time.sleep(0.005)
    tell(singleton, "child ended" if ended[0] else "child lives")
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
    singleton.wait(60)


registry_that_holds = Registry()
registry_that_holds.register(PatientWorker)


@registry_that_holds.singleton("holding")
def hold(singleton: Singleton) -> None:
    tell(singleton, "start")
    if not (Path(os.environ["WITNESS"]).with_name("held")).exists():
        Path(os.environ["WITNESS"]).with_name("held").touch()
        tell(singleton, "holds")
        ctypes.PyDLL(None).sleep(60)  # with the interpreter lock
    singleton.wait(60)
