"""The loop of the main thread: keys and news in, screens out.

Invariant: nothing here waits for the database. Each turn also cuts a statement that got no answer in time (postgres/kept.py).
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastq.cli.top import display
from fastq.cli.top.composing import Seen, composed
from fastq.cli.top.pressing import press
from fastq.cli.top.watcher import Watcher
from fastq.events import LOGGER
from fastq.postgres.kept import cut_overdue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.cli.top.pressing import Shown
    from fastq.postgres.db import Connection


def run(connect: Callable[[], Connection], shown: Shown, about: str) -> None:
    """Show it until somebody quits."""
    watcher = Watcher(connect, shown.wanted)
    with _quiet(), display.opened() as screen:
        watcher.start()
        try:
            while not shown.quit:
                _turn(watcher, screen, shown, about)
        finally:
            watcher.stop()


def _turn(watcher: Watcher, screen: display.Display, shown: Shown, about: str) -> None:
    now = time.monotonic()
    cut_overdue(watcher.session.watched(), now)
    if watcher.failure is not None:
        raise watcher.failure
    while watcher.said:
        shown.said = watcher.said.popleft()
    told = watcher.told
    seen = Seen(told.figures, now - told.at, told.every, told.trouble, now - told.since, told.slow, about)
    size = screen.size()
    made = composed(shown, seen, *size)
    shown.page = made.page
    screen.paint(made.lines, size)
    for key in screen.keys(watcher.bell):
        if deed := press(shown, key, told.figures):
            watcher.do(deed)
    watcher.ask(shown.wanted)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep events off the screen: the state of the connection has a place there."""
    handler, propagated = logging.NullHandler(), LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.propagate = propagated
        LOGGER.removeHandler(handler)
