"""An event loop whose timers end in time: asyncio's own, with a selector that waits for less than a millisecond, too.

Made by the main thread of a worker process, with its `Loop`, and used by the loop's thread alone; it keeps nothing of its own.

epoll counts in whole milliseconds, and asyncio has it round up, so that it does not spin through the last one. A job that
sleeps for 5 ms then takes more than 6, and a slot does a fifth fewer of them (docs/adr/0046). Here a short wait is select's, in
microseconds, for the one descriptor of the epoll, which is ready when anything in it is; what is ready is then asked for without
a wait. That costs one more call of the system for each such wait. A long one is epoll's, as ever: its last millisecond is a small
part of it.

Invariant: a wait ends no later than asyncio's own would, and what it returns is epoll's own answer. It deliberately leaves the
loop of a program alone that has chosen another one (uvloop, say, by its policy), and that of a system without epoll.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectors import SelectorKey

SHORT = 0.05
"""Seconds of a wait that is worth the other call: rounding makes a longer one longer by 1 % on average, and less."""

FEW = 1_024
"""Descriptors that select takes are below this; the one of an epoll that was made later is not."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, of the kind that the program's policy makes."""
    loop = asyncio.new_event_loop()
    if type(loop) is not asyncio.SelectorEventLoop or not hasattr(selectors, "EpollSelector"):
        return loop
    selector = _punctual()
    if selector.fileno() >= FEW:
        selector.close()
        return loop
    loop.close()
    return asyncio.SelectorEventLoop(selector)


def _punctual() -> selectors.EpollSelector:
    class Punctual(selectors.EpollSelector):
        """Waits for microseconds."""

        def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
            """Wait until a descriptor is ready, or so long; return those that are."""
            if timeout is not None and 0.0 < timeout < SHORT:
                select.select((self.fileno(),), (), (), timeout)
                timeout = 0.0
            return super().select(timeout)

    return Punctual()
