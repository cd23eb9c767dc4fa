"""A wire to Postgres that can be cut: TCP on loopback in front of a server, whether that listens on TCP or on a unix socket.

Two threads per connection, one for each direction; each has at most one chunk in hand, the rest waits in the kernel's buffers.

    black_hole   nothing passes in either direction, nobody is told, and new connections are accepted and hear nothing
    restore      what was kept back is delivered late, as a network does, and everything goes on
    sever        all connections are closed
    late         seconds by which each answer of the server is kept back: the statement takes effect in time, its answer does not
    lose         nothing passes any more on the next connections, one after the other, on which a statement is executed, that
                 execution included, and nobody is told; or on one of those that are open, or all. Others are not affected
    hold         only the next execution of a statement, prepared or not, known by its text, is kept on its way to the server
    release      it is delivered now
    cut          asked about each chunk of a client's; it has the connection closed `before` the chunk has passed, `after` it, or
                 when the server has given its `answer` to it, which is lost then
"""

import random
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

CHUNK = 65_536
RECENT = 4 * CHUNK  # bytes of a connection among which the text of a statement is looked for


class Link:
    """One connection: its two sockets, and the names under which the client prepared the statements that may be held."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.dark = False  # changed under the proxy's lock
        self.answered_last = False  # the next answer of the server is lost, and the connection with it
        self.recent = b""
        self.names: dict[bytes, str] = {}

    def learn(self, chunk: bytes, statements: Mapping[str, bytes]) -> None:
        """Notice which statements the client prepares."""
        if b"_pg3_" not in chunk and not self.recent:
            return
        self.recent = (self.recent + chunk)[-RECENT:]
        for label, text in statements.items():
            if label not in self.names.values() and (found := re.search(rb"(_pg3_\d+)\0" + re.escape(text), self.recent)):
                self.names[found[1]] = label

    def executes(self, chunk: bytes, statements: Mapping[str, bytes]) -> set[str]:
        """Tell which statements a chunk executes, by their names or their texts."""
        named = {label for name, label in self.names.items() if b"\0" + name + b"\0" in chunk}
        return named | {label for label, text in statements.items() if text in chunk}


class Proxy:
    """The wire to one server; `url` leads through it."""

    def __init__(self, url: str, statements: Mapping[str, str] | None = None) -> None:
        self._target = url
        self._statements = {label: text.encode() for label, text in (statements or {}).items()}
        self.late = 0.0  # set by the test, read by the threads
        self.cut: Callable[[bytes], str | None] | None = None  # set by the test, called by the threads
        self.accepted = 0  # connections so far; written by one thread, read by the test
        self.lost = 0  # connections on which nothing passes any more; the same
        self._links: list[Link] = []
        self._state = threading.Condition()  # guards what follows
        self._dark = False
        self._losing = dict.fromkeys(self._statements, 0)  # connections to lose, by the statement that they execute
        self._wanted: str | None = None  # the statement to hold
        self._held: Link | None = None
        self._closed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def url_of(self, url: str) -> str:
        """Return a URL of the same server, but through this wire."""
        parts = urlsplit(url)
        query = urlencode({**dict(parse_qsl(parts.query)), "host": "127.0.0.1", "port": str(self.port)})
        name = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{name}@" if name else "", query=query).geturl()

    @property
    def url(self) -> str:
        """Return the server's URL through this wire."""
        return self.url_of(self._target)

    def black_hole(self) -> None:
        """Let nothing pass any more."""
        with self._state:
            self._dark = True

    def restore(self) -> None:
        """Let everything pass again, what was kept back first."""
        with self._state:
            self._dark, self._wanted, self._held = False, None, None
            for link in self._links:
                link.dark = False
            self._state.notify_all()

    def lose(self, label: str, times: int = 1) -> None:
        """Lose the next connections that execute this statement."""
        with self._state:
            self._losing[label] += times

    @property
    def losing(self) -> bool:
        """Tell whether a connection is yet to be lost."""
        with self._state:
            return any(self._losing.values())

    def lose_one(self, dice: random.Random) -> None:
        """Lose a connection of those that are open."""
        with self._state:
            if links := [link for link in self._links if not link.dark]:
                dice.choice(links).dark = True
                self.lost += 1

    def lose_all(self) -> None:
        """Lose the connections that are open."""
        with self._state:
            for link in self._links:
                self.lost += not link.dark
                link.dark = True

    def give_up_lost(self) -> None:
        """Close the connections that were lost, as a server does when it finds out: it takes no more than so many."""
        with self._state:
            lost = [link for link in self._links if link.dark]
        for link in lost:
            self._end(link)

    def hold(self, label: str) -> None:
        """Keep back the next execution of this statement."""
        with self._state:
            self._wanted = label

    def held(self) -> bool:
        """Tell whether a statement is being kept back."""
        with self._state:
            return self._held is not None

    release = restore

    def sever(self) -> None:
        """Close all connections."""
        for link in list(self._links):
            self._end(link)

    def close(self) -> None:
        """End everything."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.sever()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            self.accepted += 1
            try:
                link = Link(client, self._connect())
            except OSError:
                client.close()  # as if nobody listened there
                continue
            self._links.append(link)
            threading.Thread(target=self._pump, args=(link, client, link.server), daemon=True).start()
            threading.Thread(target=self._pump, args=(link, link.server, client), daemon=True).start()

    def _connect(self) -> socket.socket:
        parts = urlsplit(self._target)
        query = dict(parse_qsl(parts.query))
        host, port = query.get("host") or parts.hostname or "127.0.0.1", int(query.get("port") or parts.port or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _pump(self, link: Link, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                if source is link.client and self._statements:
                    link.learn(chunk, self._statements)
                    executed = link.executes(chunk, self._statements)
                    self._lose(link, executed)
                    self._hold(link, executed)
                elif self.late and source is link.server:
                    time.sleep(self.late)
                cut = self._cuts(link, source, chunk)
                if cut == "before":
                    break
                self._pass(link)
                sink.sendall(chunk)
                if cut == "after":
                    break
            self._pass(link)  # a black hole swallows the end of a connection too
        self._end(link)

    def _cuts(self, link: Link, source: socket.socket, chunk: bytes) -> str | None:
        """Tell whether the connection is closed before or after this chunk."""
        if source is link.server:
            return "before" if link.answered_last else None
        cut = self.cut(chunk) if self.cut is not None else None
        link.answered_last = cut == "answer"
        return cut

    def _pass(self, link: Link) -> None:
        with self._state:
            self._state.wait_for(lambda: not (self._dark or link.dark) or self._closed)

    def _lose(self, link: Link, executed: set[str]) -> None:
        with self._state:
            for label in executed:
                if self._losing[label] and not link.dark:
                    self._losing[label] -= 1
                    self.lost += 1
                    link.dark = True

    def _hold(self, link: Link, executed: set[str]) -> None:
        with self._state:
            if self._wanted in executed and self._held is None:
                self._held = link
            self._state.wait_for(lambda: self._held is not link or self._closed)

    def _end(self, link: Link) -> None:
        for end in (link.client, link.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with suppress(ValueError):
            self._links.remove(link)
