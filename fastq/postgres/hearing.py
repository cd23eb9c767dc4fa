"""Hear the notifications of a session by libpq's own calls.

The driver's way to wait for them takes 0.05 ms, and ends up to a millisecond before the time that it is given, so that a thread
with something to do at that time goes round until then (docs/adr/0045). Here the thread sleeps until the kernel has something to
read, or until the time is over.

Used by the thread that owns the session; it keeps what has come while a statement ran, which the driver hands over. It
deliberately knows nothing of channels and payloads.
"""

from __future__ import annotations

import math
import select
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Notify


class Hearing:
    """The notifications of one session, from the first use of this on."""

    def __init__(self, raw: Any) -> None:
        self._pgconn = raw.pgconn
        self._poller = select.poll()
        self._poller.register(raw.fileno(), select.POLLIN)
        self._beside: list[Notify] = []  # that have come while a statement ran
        raw.add_notify_handler(self._beside.append)

    def within(self, timeout: float | None) -> list[str]:
        """Return the payloads that arrive within so many seconds, all that came with the first at once; None: wait for ever."""
        if not self._beside and self._poller.poll(None if timeout is None else math.ceil(timeout * 1e3)):
            self._pgconn.consume_input()
        found = [notification.payload for notification in self._beside]
        self._beside.clear()
        while (notification := self._pgconn.notifies()) is not None:
            found.append(notification.extra.decode())
        return found
