"""Tell a service manager how the host is, in datagrams to the socket that it has named: systemd's `Type=notify`.

    READY=1        when the host is ready for the first time
    WATCHDOG=1     twice in the time that the manager allows between two of them; it kills a supervisor that does not go round
    STATUS=        what `systemctl status` shows: processes, and jobs that execute
    STOPPING=1     when the host begins to stop

The supervisor's main thread makes the `Manager`, calls it, and alone writes its attributes. It never waits: the socket does not
block, and a datagram for which there is no room is lost; the next one says more. It deliberately asks for no longer time to
stop: TimeoutStopSec is the operator's decision.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from fastq.environment import service_manager

if TYPE_CHECKING:
    from fastq.host.vitals.vitals import Signs

STATUS_PAUSE = 5.0
"""Seconds between two lines of status: a guess at how often a person looks. Each is a line in the manager's memory."""


class Manager:
    """The service manager; one that was not named is told nothing."""

    def __init__(self, address: str = "", watchdog: float | None = None) -> None:
        self._socket: socket.socket | None = None
        self._address = f"\0{address[1:]}" if address.startswith("@") else address  # an abstract one
        self._every = None if watchdog is None else watchdog / 2
        self._watched_at = self._told_at = float("-inf")  # monotonic times
        self._ready = self._stopping = False
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    @classmethod
    def named(cls) -> Manager:
        """Make the one that the environment names, and take the names out of it: they are not meant for our children."""
        return cls(*service_manager(os.getpid()))

    def __bool__(self) -> bool:
        """Tell whether there is one."""
        return self._socket is not None

    def tell(self, signs: Signs, ready: bool, now: float) -> None:
        """Tell of the newest signs, if it is time to."""
        if self._every is not None and now - self._watched_at >= self._every:
            self._watched_at = now
            self._send("WATCHDOG=1")
        if ready and not self._ready:
            self._ready = True
            self._send("READY=1")
        if now - self._told_at >= STATUS_PAUSE:
            self._told_at = now
            verb = "stops" if signs.stopping else "works" if ready else "is not ready"
            self._send(
                f"STATUS={verb}: {signs.working} of {signs.places} processes, {sum(signs.executing.values())} jobs executing"
            )

    def stopping(self) -> None:
        """Tell that the host begins to stop, once."""
        if not self._stopping:
            self._stopping = True
            self._send("STOPPING=1")

    def close(self) -> None:
        """Tell nothing more."""
        told, self._socket = self._socket, None
        if told is not None:
            told.close()

    def _send(self, text: str) -> None:
        told = self._socket
        if told is not None:
            with suppress(OSError):  # nobody listens there, or there is no room
                told.sendto(text.encode(), self._address)
