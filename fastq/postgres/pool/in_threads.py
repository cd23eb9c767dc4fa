"""Waiting in a program with threads: the few things that are not the same in an event loop (in_loop.py has the same names).

Used by the pool, the clients and their sessions, and the blocks of `job.transaction()`, in the threads that call a client or
execute a job; each of these has its own objects. tools/twins.py puts this module where a module that awaits says `in_loop`.

It deliberately has nothing that could be written once for both sides.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Home: TypeAlias = int
"""A process. A forked child is another one: it must neither use nor close the connections that it inherited."""

sleep = time.sleep


home = os.getpid
"""Return the process that runs this."""


def forget_ended(by_home: dict[Home, Any]) -> None:
    """Forget nothing: while this process runs it has not ended, and dropping a parent's entry would close its connections."""


def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that blocks: here as everything does."""
    return function(*arguments)


Semaphore = threading.Semaphore
"""A number of things; `acquire` takes one and waits for it until the timeout, and is False if there was none."""


Bell = threading.Event
"""Something that is waited for no longer than a time."""
