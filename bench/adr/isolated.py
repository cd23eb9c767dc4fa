"""Measure what docs/adr/0031 rests on: `python bench/adr/isolated.py [--jobs N]`.

Ways to give a job a process of its own, in turns, each with the modules of a worker process loaded: the CPU for each job, of all
processes together, and the time from the order to the first line of the job, as the median. The jobs do nothing, one at a time.

    nursery         a fork by a helper with one thread, as fastq does it
    fork server     a fork by multiprocess' fork server, which is what starts worker processes
    spawn           a new interpreter that imports fastq

It uses no database.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import multiprocess
from multiprocess import forkserver

import fastq.work.process  # noqa: F401 - all that a worker process has in memory
from fastq.work.isolated.nursery import Nursery, send_with
from fastq.work.isolated.wire import DEATH, FORK, ORDER

TIME = struct.Struct("<d")


def say(end: int) -> None:
    """Be the job: tell when it has begun."""
    os.write(end, TIME.pack(time.monotonic()))


def by_nursery(jobs: int) -> list[float]:
    """Fork by a nursery."""
    read, write = os.pipe()
    nursery = Nursery(lambda *_: say(write))
    line, took = nursery.line(), []
    for number in range(jobs):
        ours, theirs = socket.socketpair()
        began = time.monotonic()
        with ours, theirs:
            send_with(line, ORDER.pack(FORK, number), theirs.fileno(), theirs.fileno())
            line.recv(DEATH.size)
        took.append(TIME.unpack(os.read(read, TIME.size))[0] - began)
    nursery.close()
    os.waitpid(nursery.pid, 0)
    return took


def by_fork_server(jobs: int) -> list[float]:
    """Fork by multiprocess' fork server."""
    context = multiprocess.get_context("forkserver")
    context.set_forkserver_preload(["fastq.work.process"])
    read, write = context.Pipe(duplex=False)
    took = []
    for _ in range(jobs):
        began = time.monotonic()
        process = context.Process(target=tell, args=(write,))
        process.start()
        took.append(read.recv() - began)
        process.join()
    return took


def tell(end: Any) -> None:
    """Be the job of the fork server."""
    end.send(time.monotonic())


def by_spawn(jobs: int) -> list[float]:
    """Start a new interpreter."""
    took = []
    for _ in range(max(1, jobs // 20)):
        began = time.monotonic()
        code = "import time; import fastq.work.process; print(time.monotonic())"
        said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        took.append(float(said) - began)
    return took


WAYS: dict[str, Callable[[int], list[float]]] = {"nursery": by_nursery, "fork server": by_fork_server, "spawn": by_spawn}


def cpu() -> float:
    """Return the seconds of CPU of this process and of all that it has waited for."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def measure(name: str, jobs: int) -> dict[str, object]:
    """Measure one way."""
    before = cpu()
    took = WAYS[name](jobs)
    if name == "fork server":  # its time counts once it has ended
        forkserver._forkserver._stop()  # noqa: SLF001 - there is no public way to its end
    spent = cpu() - before
    return {"way": name, "ms_cpu": round(spent / len(took) * 1e3, 2), "ms_to_start": round(statistics.median(took) * 1e3, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python bench/adr/isolated.py", description=__doc__)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps({"load": os.getloadavg()[0]}))
    for _ in range(options.rounds):
        for name in WAYS:
            print(json.dumps(measure(name, options.jobs)), flush=True)


if __name__ == "__main__":
    main()
