"""Answer probes and a scraper over HTTP: `/healthz`, `/readyz`, `/metrics`, on the address of FASTQ_HEALTH.

A thread of the supervisor with an event loop of its own. The main thread makes it, which takes the address, so an address that is
taken ends `fastq run` at its start. Answers are made of the signs that the main thread keeps (vitals.py).

Invariants, against any client:
- One thread and CONNECTIONS connections at most: for a further one the oldest is closed, which has had its time.
- A request has PATIENCE seconds, from the connection to the last byte of its answer, and REQUEST bytes. It is the first line that
  counts; of the headers nothing is read but their end, and a body is not read at all.
- A connection has one request.

It deliberately knows no TLS and no password, and shows nothing that would need one: no kind, no args, no address. It has no other
paths; the server of the standard library (http.server) starts a thread for each connection and bounds neither time nor number.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from fastq.errors import ConfigError
from fastq.events import emit
from fastq.host.vitals.exposition import CONTENT_TYPE, written
from fastq.service import Threaded
from fastq.settings.declaring import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.host.vitals.vitals import Vitals

CONNECTIONS = 32
"""Connections at once: a kubelet has two, a scraper one, a person a few."""

REQUEST = 8_192
"""Bytes of a request line with its headers: the bound of most servers, and far more than a probe sends."""

BODY = 2**20
"""Bytes after a request that are read and dropped while the client takes its answer."""

PATIENCE = 5.0
"""Seconds for a request and its answer: probes give up after one to ten."""

LINE = re.compile(rb"(?P<method>[A-Z]{1,16}) (?P<path>/[!-~]*) HTTP/1\.[01]\r?\n")

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Unavailable",
}
TEXT = "text/plain; charset=utf-8"
Answer = tuple[int, str, bytes]


class Port(Threaded):
    """The port of one supervisor."""

    def __init__(self, address: str, vitals: Vitals) -> None:
        super().__init__("health")
        self._vitals = vitals
        self._open: dict[asyncio.WriteTransport, None] = {}  # connections, the oldest first; the loop's own
        self._lock = threading.Lock()  # guards the next two
        self._over = False
        self._end: Callable[[], None] | None = None  # ends the loop, while there is one
        self._listening = _listening(address)
        host, port = self._listening.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def finish(self, by: float) -> float:
        """End: connections that are open are closed."""
        with self._lock:
            self._over = True
            end = self._end
        if end is None:
            self._listening.close()
        else:
            end()
        return max(0.0, by - time.monotonic())

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if self._over:
                return
            self._end = lambda: _call(loop, over.set)
        try:
            server = await asyncio.start_server(self._answered, sock=self._listening, limit=REQUEST)
            emit("health.listens", address=self.address)
            await over.wait()
            server.close()  # asyncio.run ends the connections that are open
        finally:
            with self._lock:
                self._end = None
            self._listening.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection, or close it."""
        if len(self._open) >= CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[writer.transport] = None
        try:
            async with asyncio.timeout(PATIENCE):
                await self._one(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return  # it has gone, or was too slow
        finally:
            self._open.pop(writer.transport, None)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            status, kind, body, head = 431, TEXT, b"too long\n", False
        else:
            line = LINE.match(request)
            head = line is not None and line["method"] == b"HEAD"
            status, kind, body = self._answer(line)
        lines = (
            f"HTTP/1.1 {status} {REASONS[status]}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if head else body))
        writer.write_eof()
        await writer.drain()
        for _ in range(BODY // REQUEST):  # until the client has taken it, and closes: to abort before would throw the answer away
            if not await reader.read(REQUEST):
                return

    def _answer(self, line: re.Match[bytes] | None) -> Answer:
        if line is None:
            return 400, TEXT, b"expected a request of HTTP/1.1\n"
        if line["method"] not in (b"GET", b"HEAD"):
            return 405, TEXT, b"expected GET or HEAD\n"
        path, now = line["path"].partition(b"?")[0], time.monotonic()
        if path == b"/healthz":
            return _told("alive", self._vitals.not_alive(now))
        if path == b"/readyz":
            return _told("ready", self._vitals.not_ready(now))
        if path == b"/metrics":
            return 200, CONTENT_TYPE, written(self._vitals, now).encode()
        return 404, TEXT, b"expected /healthz, /readyz or /metrics\n"


def _told(what: str, reasons: list[str]) -> Answer:
    body = msgspec.json.encode({what: not reasons, "reasons": reasons}) + b"\n"
    return (503 if reasons else 200), "application/json", body


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed: it has ended by itself
        loop.call_soon_threadsafe(function)


def _listening(address: str) -> socket.socket:
    host, port = parse_address(address)
    try:
        made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=CONNECTIONS)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        raise ConfigError(f"FASTQ_HEALTH: cannot listen on {address} ({why}): choose another address") from error
    made.setblocking(False)
    return made
