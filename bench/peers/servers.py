"""The servers that peers need: one Postgres for all, with a database for each, and a Redis.

The Postgres is that of FASTQ_DATABASE_URL (a role that may create databases), or an embedded one in `build/peers`, on a disk: a
commit waits for it, as in production. The Redis is started on a free port of loopback, and appends to its log once a second: so
it loses a second of jobs in a power cut, where Postgres loses none. Both are stopped at the end.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from bench.peers.install import BUILD, Absent
from fastq.config import Config
from fastq.postgres import db, embedded

SETTINGS = {"max_connections": "300"}
START_TIMEOUT = 10.0  # s


@contextmanager
def postgres() -> Iterator[str]:
    """Give the URL of a server."""
    url = Config.load().database_url
    if url:
        yield url
        return
    folder = BUILD / "postgres"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    with embedded.start(folder, settings=SETTINGS) as server:
        yield server.url


def database_of(url: str, name: str) -> str:
    """Return the URL of another database of the server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def renew(admin: db.Connection, name: str) -> None:
    """Make a database anew, and hand on the files of the server's log."""
    admin.execute(f"drop database if exists {name} with (force)")
    admin.execute(f"create database {name}")
    with suppress(db.Error):
        admin.execute("checkpoint")


class Redis:
    """A Redis server, and the few words that we say to it."""

    def __init__(self) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise Absent("there is no redis-server on this machine")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = BUILD / f"redis-{self.port}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        where = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder))
        kept = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning")
        self._process = subprocess.Popen([program, *where, *kept], stdout=subprocess.DEVNULL, start_new_session=True)
        self.pid = self._process.pid
        self.url = f"redis://127.0.0.1:{self.port}/0"
        give_up = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", self.port))
                break
            except OSError:
                if time.monotonic() > give_up:
                    raise Absent("redis-server does not answer") from None
                time.sleep(0.05)
        self._lines = self._socket.makefile("rb")
        self.version = str(
            self.ask("eval", "return redis.REDIS_VERSION or redis.call('info', 'server'):match('redis_version:(%S+)')", "0")
        )

    def ask(self, *words: str) -> int | str:
        """Send a command whose answer is a number, a status or a short string."""
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        self._socket.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        sign, rest = (line := self._lines.readline().decode().strip())[:1], line[1:]
        if sign == "-":
            raise RuntimeError(f"redis: {rest}")
        if sign == ":":
            return int(rest)
        if sign == "$":
            return self._lines.read(int(rest) + 2)[:-2].decode()
        return rest

    def log_bytes(self) -> int:
        """Return the bytes of its log."""
        return sum(path.stat().st_size for path in Path(self.folder).glob("appendonlydir/*"))

    def stop(self) -> None:
        """End it."""
        self._socket.close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
