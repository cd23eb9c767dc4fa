"""Waiting in an event loop: the few things that are not the same in a program with threads (in_threads.py has the same names).

Used by the pool, the clients and their sessions, and the blocks of `job.transaction()`, in the event loop that calls a client or
executes jobs; each of these has its own objects.

It deliberately has nothing that could be written once for both sides.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Home: TypeAlias = "tuple[int, asyncio.AbstractEventLoop]"
"""A process and an event loop in it: a connection is of use to the loop that made it, and to no other."""

sleep = asyncio.sleep


def home() -> Home:
    """Return the event loop that runs this, and its process."""
    return os.getpid(), asyncio.get_running_loop()


def forget_ended(by_home: dict[Home, Any]) -> None:
    """Drop the entries of closed event loops of this process; other threads may add theirs meanwhile."""
    process = os.getpid()
    for old in list(by_home):
        if old[0] == process and old[1].is_closed():
            by_home.pop(old, None)


async def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that blocks, in a thread beside the event loop."""
    return await asyncio.to_thread(function, *arguments)


class Semaphore:
    """The number of connections that a pool may still lend; one pool's, in one event loop."""

    def __init__(self, number: int) -> None:
        self._left = asyncio.Semaphore(number)

    async def acquire(self, *, timeout: float) -> bool:  # noqa: ASYNC109 - as threading's has it
        """Take one, and wait for it until the timeout; False if there was none."""
        try:
            async with asyncio.timeout(timeout):
                return await self._left.acquire()
        except TimeoutError:
            return False

    def release(self) -> None:
        """Give one back."""
        self._left.release()


class Bell(asyncio.Event):
    """Something that is waited for no longer than a time."""

    async def wait(self, timeout: float) -> bool:  # type: ignore[override]  # noqa: ASYNC109 - as threading's has it
        """Wait until it is set; False if the time is over first."""
        try:
            async with asyncio.timeout(timeout):
                return bool(await super().wait())
        except TimeoutError:
            return False
