"""Keep the contents of pages for a moment, so that all viewers of a page share one reading of the database.

Called in the event loops that serve; a content is made in a thread of the `Source`, and is plain data that nobody changes. The
dict of contents is changed under a lock, by any event loop; who asks for a content that is being made waits for the same one.

Invariants: a content is FRESH seconds old at most when it is given out, and never older than the last change that was made
through this dashboard (`forget`). A content is made once for all viewers, so nothing in it depends on the viewer; the exceptions
of its making are shared likewise.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from concurrent.futures import Future

    from fastq.postgres.db import Connection
    from fastq.web.live.source import Source

FRESH = 1.0
"""Seconds for which a content is given out again: nobody sees the difference, and a thousand viewers cost as much as one."""

MOST = 64
"""Contents that are kept: more than a team looks at in a second."""


@dataclass(slots=True)
class _Made:
    future: Future[Any]
    at: float  # the monotonic time at which its making began
    took: float | None = None  # seconds, once it is made


Key: TypeAlias = "Hashable"


class Shared:
    """The contents that were read lately."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.made = 0  # contents made so far, for tests and for the curious
        self._contents: OrderedDict[Key, _Made] = OrderedDict()
        self._lock = threading.Lock()

    async def content(self, key: Key, make: Callable[[Connection], Any]) -> Any:
        """Return the content of a page, made by a function that reads the database."""
        with self._lock:
            made = self._contents.get(key)
            if made is None or (made.future.done() and time.monotonic() - made.at > max(FRESH, made.took or 0.0)):
                made = self._contents[key] = self._make(make)
            self._contents.move_to_end(key)
            while len(self._contents) > MOST:
                self._contents.popitem(last=False)
        return await asyncio.shield(asyncio.wrap_future(made.future))

    def took(self, key: Key) -> float:
        """Return the seconds that a content took to make; 0 if that is not known."""
        with self._lock:
            made = self._contents.get(key)
            return (made.took or 0.0) if made is not None else 0.0

    def forget(self) -> None:
        """Have each content made anew: something was changed."""
        with self._lock:
            self._contents.clear()

    def _make(self, make: Callable[[Connection], Any]) -> _Made:
        self.made += 1
        made = _Made(self.source.read(make), time.monotonic())

        def ended(_: Future[Any]) -> None:
            made.took = time.monotonic() - made.at

        made.future.add_done_callback(ended)
        return made
