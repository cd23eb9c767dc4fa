"""What every measured program in Python does alike: hear the order, say when it is ready, enqueue at a pace, note times.

Run in the main thread of a measured program, and in the threads that it enqueues with; a `Record` belongs to one of them. Imports
the standard library alone, and nothing of fastq: a program of a peer loads this file in an environment that has no fastq.

The order is one line of JSON on stdin; answers are a word and JSON, a line each, on stdout. The end of stdin ends the program.

Invariant: all systems get the same args from `args_of` and the same times to enqueue from `calls`.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, Callable, Iterator  # noqa: UP035 - peers run it in other Pythons, too

NOTE = struct.Struct("qq")
"""A start of work: the number of the job and the monotonic clock in nanoseconds, which all processes of a machine share."""

SENT = struct.Struct("qqq")
"""An enqueue: the number of its (last) job, and the clock when the call began and when it had returned."""

SLEEP = 0.005
"""Seconds that a slow job waits: a short call of another service."""

SPIN = 0.001
"""Seconds of CPU of a job that computes."""

SHARED = 100
"""Jobs at a time of a program with many queues that share its slots, each of which was to have a few. A guess."""

_files: dict[str, int] = {}  # by path, for appending; each thread may be the first, and two at once open a file twice


def order() -> SimpleNamespace:
    """Read the order."""
    return SimpleNamespace(**json.loads(sys.stdin.readline()))


def tell(word: str, **facts: Any) -> None:
    """Send an answer."""
    sys.stdout.write(f"{word} {json.dumps(facts)}\n")
    sys.stdout.flush()


def until(word: str) -> None:
    """Wait for a line; the end of stdin instead of it ends the program."""
    if sys.stdin.readline().strip() != word:
        raise SystemExit(0)


def until_end() -> None:
    """Wait for the end of stdin."""
    while sys.stdin.readline():
        pass


def args_of(job: str, number: int, path: str) -> dict[str, Any]:
    """Return the args of a job: one number, a number with a path for jobs that note the time, or twelve fields of 1 kB."""
    if job == "clock":
        return {"number": number, "path": path}
    if job == "large":
        text = "lorem ipsum dolor sit amet, consetetur sadipscing elitr, sed diam nonumy eirmod tempor invidunt ut labore"
        return {
            "number": number,
            "user": number * 7,
            "weight": number / 4,
            "urgent": number % 3 == 0,
            **{f"text{place}": text for place in range(8)},
        }
    return {"number": number}


def note(number: int, path: str) -> None:
    """Write down that the work of a job begins now."""
    started = time.monotonic_ns()
    fd = _files.get(path)
    if fd is None:
        fd = _files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, NOTE.pack(number, started))  # less than a page: written whole, even if others append


def slots(given: SimpleNamespace) -> int:
    """Return how many jobs a program has at a time whose queues share its slots."""
    each: int = given.slots
    return max(each, min(each * len(given.queues), SHARED))


def spin() -> None:
    """Compute for a while, on this thread's own clock: it does not run while others have the core."""
    end = time.thread_time() + SPIN
    while time.thread_time() < end:
        pass


def calls(given: SimpleNamespace, thread: int) -> Iterator[tuple[list[int], str, float]]:
    """Yield the enqueues of one thread: the numbers of the jobs, their queue, and the monotonic time to send them at."""
    count, batch, threads, queues = given.count, given.batch, given.threads, given.queues
    chance, began = random.Random(thread), time.monotonic()  # noqa: S311 - no secret
    at = began
    for call, first in enumerate(range(thread * batch, count, threads * batch)):
        if given.gap:
            at += chance.uniform(*given.gap)
        elif given.rate:
            at = began + (first + batch) / given.rate
        if given.seconds and time.monotonic() > began + given.seconds:
            return
        numbers = range(given.first + first, given.first + min(first + batch, count))
        yield list(numbers), queues[(call * threads + thread) % len(queues)], at


class Record:
    """The enqueues of one thread, in memory until they are written at once."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []
        self.jobs = 0

    def add(self, numbers: list[int], sent: int) -> None:
        """Note a call that began then and has returned now."""
        self._rows.append((numbers[-1], sent, time.monotonic_ns()))
        self.jobs += len(numbers)

    def write(self, path: str) -> None:
        """Append all."""
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"".join(SENT.pack(*row) for row in self._rows))
        os.close(fd)


def enqueue(given: SimpleNamespace, send: Callable[[list[int], str], object]) -> None:
    """Enqueue by a function that blocks, from as many threads as ordered, and tell how long that took."""

    def one(thread: int, record: Record) -> None:
        for numbers, queue, at in calls(given, thread):
            time.sleep(max(0.0, at - time.monotonic()))
            sent = time.monotonic_ns()
            send(numbers, queue)
            record.add(numbers, sent)

    until("go")
    began = time.monotonic_ns()
    noted = [Record() for _ in range(given.threads)]
    others = [threading.Thread(target=one, args=(place, noted[place])) for place in range(1, given.threads)]
    for other in others:
        other.start()
    one(0, noted[0])
    for other in others:
        other.join()
    told(given, noted, began)


async def enqueue_async(given: SimpleNamespace, send: Callable[[list[int], str], Any]) -> None:
    """Do the same by coroutines, as many as threads were ordered."""
    import asyncio  # noqa: PLC0415 - programs that block do without

    async def one(thread: int, record: Record) -> None:
        for numbers, queue, at in calls(given, thread):
            if (rest := at - time.monotonic()) > 0:
                await asyncio.sleep(rest)
            sent = time.monotonic_ns()
            await send(numbers, queue)
            record.add(numbers, sent)

    await asyncio.to_thread(until, "go")
    began = time.monotonic_ns()
    noted = [Record() for _ in range(given.threads)]
    await asyncio.gather(*(one(place, record) for place, record in enumerate(noted)))
    told(given, noted, began)


def told(given: SimpleNamespace, noted: list[Record], began: int) -> None:
    """Write the records where a path was given, and tell how many jobs were enqueued and when."""
    ended = time.monotonic_ns()
    if given.sent:
        for record in noted:
            record.write(given.sent)
    tell("done", jobs=sum(record.jobs for record in noted), began=began, ended=ended)
