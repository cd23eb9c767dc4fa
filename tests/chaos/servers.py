"""Servers that a fault may end: a Postgres with a standby to promote, and a pooler that can be restarted."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, quote, urlsplit

from fastq.postgres import embedded
from fastq.schema.migrate import migrate
from tests.chaos.candidates import role_name
from tests.helpers import create_database, drop_database, execute, process_exists, wait_for

SETTINGS = {
    "fsync": "off",  # a killed server keeps what it wrote; only the machine must not die
    "max_connections": "200",
    "max_notify_queue_pages": "64",  # the least: half a megabyte
}
PATIENCE = 30.0


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that the user of a server reaches, in memory if there is such a file system."""
    folder = Path(tempfile.mkdtemp(prefix="fastq-failover-", dir="/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def alone() -> Iterator[tuple[str, Path, Callable[[], None]]]:
    """Give a migrated database on a server of its own, a folder that stays as evidence, and a function that has the server crash.

    No setting of ours is left.
    """
    for name in [name for name in os.environ if name.startswith("FASTQ_")]:
        del os.environ[name]
    folder = Path(tempfile.mkdtemp(prefix="fastq-chaos-", dir="/tmp"))
    folder.chmod(0o755)  # the embedded server of root runs as another user
    (folder / "postgres").mkdir()
    with Servers(folder / "postgres") as servers:
        name = f"fastq_chaos_{os.getpid()}"
        url = servers.create(name)
        try:
            migrate(url)
            yield url, folder, servers.crash
        finally:
            drop_database(servers.primary.url, name)


class Servers:
    """A primary, and a standby when one is made. `url_of` names the primary alone, `any_url_of` whichever takes writes."""

    def __init__(self, folder: Path) -> None:
        self._folders = [folder / "one", folder / "two"]
        self._binaries = embedded._binaries(18)
        self.primary = embedded.start(self._folders[0], settings=SETTINGS)
        self._standby: embedded.Server | None = None

    def create(self, name: str) -> str:
        """Create a database on the primary."""
        return create_database(self.primary.url, name)

    def any_url_of(self, name: str) -> str:
        """Return a URL that names both servers and wants the one that takes writes."""
        hosts = ",".join(str(folder / "data") for folder in self._folders)
        return f"postgresql://postgres@/{name}?host={quote(hosts)}&target_session_attrs=read-write"

    def crash(self) -> None:
        """Kill the postmaster, and start it again."""
        os.kill(self.primary.pid, signal.SIGKILL)
        wait_for(lambda: not process_exists(self.primary.pid), PATIENCE, "the end of the postmaster")
        old, self.primary = self.primary, embedded.start(self.primary.folder, settings=SETTINGS)
        old.stop()  # gives its share of the folder back; the server stays

    def add_standby(self) -> None:
        """Copy the primary, and let the copy follow it."""
        (folder,) = (folder for folder in self._folders if folder != self.primary.folder)
        shutil.rmtree(folder, ignore_errors=True)
        data = folder / "data"
        data.mkdir(parents=True, mode=0o700)
        folder.chmod(0o711)
        give(data)
        source = ("--host", str(self.primary.data), "--username", "postgres")
        self.tool(
            "pg_basebackup", *source, "--pgdata", str(data), "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"
        )
        for stale in data.glob(".s.PGSQL.*"):  # the primary's socket lies among its files
            stale.unlink()
        self._standby = embedded.start(folder, settings=SETTINGS)
        wait_for(lambda: execute(self.primary.url, FOLLOWS) == [(1,)], PATIENCE, "the standby to follow")

    @property
    def standby_url(self) -> str:
        """Return the URL of the standby."""
        assert self._standby is not None, "there is no standby"
        return self._standby.url

    def promote(self) -> None:
        """Stop the primary without ceremony, and promote the standby."""
        assert self._standby is not None, "there is nobody to promote"
        old, self.primary, self._standby = self.primary, self._standby, None
        self.tool("pg_ctl", "stop", "--mode=immediate", f"--pgdata={old.data}")
        self.tool("pg_ctl", "promote", f"--pgdata={self.primary.data}")
        old.stop()

    def end(self) -> None:
        """Stop them."""
        if self._standby is not None:
            self.tool("pg_ctl", "stop", "--mode=immediate", f"--pgdata={self._standby.data}")
            self._standby.stop()
        self.primary.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def tool(self, name: str, *arguments: str) -> None:
        """Run a program of the server's, as its user."""
        done = embedded._run(self._binaries / name, *arguments)
        assert done.returncode == 0, f"{name}: {done.stderr or done.stdout}"


FOLLOWS = "select count(*) from pg_stat_replication where state = 'streaming'"

CONFIG = """
[databases]
{database} = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 20
max_client_conn = 200
server_lifetime = 600
"""


class Pooler:
    """PgBouncer in transaction mode before one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._listen = free_port()
        query = dict(parse_qsl(urlsplit(url).query))
        database = urlsplit(url).path.lstrip("/")
        text = CONFIG.format(database=database, host=query["host"], port=5432, listen=self._listen, folder=folder)
        (folder / "pgbouncer.ini").write_text(text)
        (folder / "users.txt").write_text(
            "".join(f'"{role}" ""\n' for role in ["postgres", *(role_name(number) for number in range(1, 1_000))])
        )
        self._user = embedded._server_user()
        self.start()

    @property
    def url(self) -> str:
        """The way through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self._listen}{urlsplit(self._url).path}"

    def kill(self) -> None:
        """End it without ceremony."""
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._process = subprocess.Popen(
            ["pgbouncer", "--quiet", str(self._folder / "pgbouncer.ini")],
            user=None if self._user is None else self._user.pw_uid,
            group=None if self._user is None else self._user.pw_gid,
            extra_groups=None if self._user is None else [],
            cwd="/",
            stderr=(self._folder / "pgbouncer.log").open("ab"),
        )
        wait_for(self._listens, PATIENCE, f"the pooler, see {self._folder}/pgbouncer.log")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._listen)) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def give(path: Path) -> None:
    """Make a path the property of the servers' user."""
    owner = embedded._server_user()
    if owner is not None:
        os.chown(path, owner.pw_uid, owner.pw_gid)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
