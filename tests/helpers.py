"""What several tests need: databases by name, and waiting for what happens elsewhere."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import LiteralString, TypeVar
from urllib.parse import urlsplit

import psycopg

T = TypeVar("T")
POLL = 0.005  # s; a local round trip to Postgres takes a tenth of it
PATIENCE = 45.0  # s; less than a test may take, so that the test says what it waited for
STAT = Path("/proc/stat")
REST = 4  # times as long as a look took until the next: one that connects takes 3 ms of an idle machine, more of a busy one
FILE_COPY = 150_000  # the first server that can be told to copy a database's files: half the time of writing them to the WAL


class Stopwatch:
    """How long something took, in seconds of the clock and in seconds in which this machine had nothing to do.

    A program that waits for a timeout leaves the CPUs idle; one that is slow because others use them does not. So a test that
    shows "it did not wait for that" asks for the idle time: a busy machine cannot break it. Where the system does not tell of
    idle time (it is no Linux), that is the time of the clock.
    """

    def __init__(self) -> None:
        self._began, self._idle_before = time.monotonic(), _idle()

    def clock(self) -> float:
        """Return the seconds that have passed."""
        return time.monotonic() - self._began

    def idle(self) -> float:
        """Return the seconds for which the CPUs had nothing to do, as the mean of all."""
        if self._idle_before is None or (now := _idle()) is None:
            return self.clock()
        return min(self.clock(), now - self._idle_before)

    def busy(self) -> float:
        """Return the seconds for which this machine had something to do, be it of the test or of others."""
        return self.clock() - self.idle()


def _idle() -> float | None:
    try:
        with STAT.open() as file:
            ticks = int(file.readline().split()[4])
    except OSError:
        return None
    return ticks / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)


def wait_for(condition: Callable[[], T], timeout: float = 10.0, what: str = "") -> T:
    """Call the condition until it is true and return its value, or fail and tell its last value.

    The timeout counts idle time (see Stopwatch), and the clock's up to PATIENCE: on a busy machine everything takes longer.
    """
    watch = Stopwatch()
    while True:
        began = time.monotonic()
        if value := condition():
            return value
        if watch.idle() > timeout or watch.clock() > max(timeout, PATIENCE):
            name = what or getattr(condition, "__name__", repr(condition))
            raise AssertionError(f"waited {timeout} s for {name}; the last value was {value!r}")
        time.sleep(max(POLL, REST * (time.monotonic() - began)))


def after_renewals(url: str, name: str, times: int) -> None:
    """Wait until a lease has been renewed so often: each time others might have taken it, or its holder given it up."""
    with psycopg.connect(url, autocommit=True) as connection:
        text: LiteralString = "select expires_at from fastq.lease where name = %s and holder <> ''"
        seen: set[object] = set()

        def renewed() -> bool:
            seen.update(connection.execute(text, (name,)).fetchall())
            return len(seen) > times

        wait_for(renewed, 30.0, f"{times} renewals of {name}")


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Leave this process so many file descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        free = [stack.enter_context(Path(os.devnull).open()).fileno() for _ in range(count + 1)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def process_exists(pid: int) -> bool:
    """Tell whether a process lives; one of another user does, a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended just now, or there is no /proc here
        return not Path("/proc/self").is_dir()


def wait_until_gone(pids: Iterable[int], timeout: float = 10.0) -> None:
    """Wait until none of these processes lives: the last word of one, such as a file that it takes away, comes before its end."""
    wait_for(lambda: not any(map(process_exists, pids)), timeout, f"the end of {pids}")


def freeze(pid: int) -> None:
    """Stop a process by SIGSTOP, and wait until each of its threads has: until its first thread runs, the others go on."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(state == "T" for state in _states(pid)), what=f"process {pid} to stop")


def _states(pid: int) -> list[str]:
    states = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # that thread has just ended
            states.append(path.read_text().rpartition(")")[2].split()[0])
    return states


def url_of(server: str, database: str) -> str:
    """Return the URL of another database of the same server."""
    return urlsplit(server)._replace(path=f"/{database}").geturl()


def execute(url: str, statement: LiteralString, *args: object) -> list[tuple[object, ...]]:
    """Run one statement on a connection of its own, in autocommit, and return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, args or None)
        return cursor.fetchall() if cursor.description else []


def create_database(server: str, name: str, template: str = "template1") -> str:
    """Create a database and return its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        how = "strategy file_copy" if connection.info.server_version >= FILE_COPY else ""
        connection.execute(f'create database "{name}" template "{template}" {how}')
    return url_of(server, name)


def drop_database(server: str, name: str) -> None:
    """Drop a database, whoever is still connected to it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'drop database if exists "{name}" with (force)')
