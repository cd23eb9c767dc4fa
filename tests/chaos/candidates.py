"""Supervisors that stand for leader, as real processes, and the lease as the database shows it.

A supervisor is known by its pid, which its holder's name carries, and by the role that it logs in under (witness.py).
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlsplit

import psycopg

from tests.chaos import witness
from tests.chaos.processes import ROOT, descendants, wait_until_gone
from tests.helpers import wait_for

LEASE = "leader:default"
LOOK = 0.002  # s between looks at the lease
PATIENCE = 30.0
"""Seconds until a supervisor that starts must be there, and a takeover must have happened; the bounds are far below."""

SETTINGS = {
    "FASTQ_PROCS": "1",
    "FASTQ_QUEUES": "default=4",
    "FASTQ_BEAT_INTERVAL": "1",
    "FASTQ_PROCESS_TTL": "6",  # longer than a frozen one is left frozen: its jobs are its own again
    "FASTQ_SHUTDOWN_TIMEOUT": "5",
    "FASTQ_STATEMENT_TIMEOUT": "2",
    "FASTQ_MAX_CRASHES": "100",
}

numbers = itertools.count(1)


class Held(NamedTuple):
    """The lease at a moment; `renewed_at` is the server's clock, in seconds since 1970."""

    term: int
    pid: int | None
    renewed_at: float


SEEN = """select term, nullif(split_part(holder, ':', 2), '')::integer,
    extract(epoch from nullif(expires_at, '-infinity') - make_interval(secs => ttl))::float8 from fastq.lease where name = %s"""


PRESENT = """select count(*) filter (where application_name = 'fastq elector' and query ~ 'fastq.lease') > 0
    and count(*) filter (where application_name = 'fastq listener' and query <> '') > 0
    and count(*) filter (where application_name = 'fastq producer') > 0
from pg_stat_activity where usename = %s and datname = current_database()"""
REGISTERED = """select (select count(*) from fastq.process where supervisor like %s) > 0 and exists (
    select from pg_stat_activity where usename = %s and datname = current_database())"""


class Eye:
    """A connection that looks at the lease, and comes back when the server was away."""

    def __init__(self, url: str, name: str = LEASE) -> None:
        self._url = url
        self._name = name
        self._connection: psycopg.Connection[Any] | None = None
        self.terms: list[int] = []  # each once, in the order in which they were seen
        self.lost_at = 0.0  # wall time at which the server was first seen not to answer, the last time that it did not
        self.back_at: float | None = None  # monotonic: when it answered again

    def look(self) -> Held | None:
        """Return the lease; None if the server does not answer."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=2)
            row = self._connection.execute(SEEN, [self._name]).fetchone()
        except psycopg.Error:
            self.close()
            if self.back_at is not None:
                self.lost_at, self.back_at = time.time(), None
            return None
        self.back_at = self.back_at or time.monotonic()
        held = Held(*row) if row else Held(0, None, 0.0)
        if held.pid is not None and held.term not in self.terms:
            self.terms.append(held.term)
        return held

    def until(self, condition: Callable[[Held], bool], timeout: float = PATIENCE) -> Held:
        """Look until it is so."""
        give_up = time.monotonic() + timeout
        held = None
        while time.monotonic() < give_up:
            held = self.look()
            if held is not None and condition(held):
                return held
            time.sleep(LOOK)
        raise AssertionError(f"waited {timeout:g} s for another state of the lease than {held}")

    def close(self) -> None:
        """Leave."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


class Supervisor:
    """One `fastq run`."""

    def __init__(self, url: str, role: str, environment: dict[str, str], log: Path, cwd: Path = ROOT) -> None:
        self.role = role
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fastq", "run", "tests.chaos.app:registry", "--app-dir", str(ROOT)],
                cwd=cwd,
                env={**environment, "FASTQ_DATABASE_URL": url},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor alone."""
        self._process.send_signal(number)

    @property
    def alive(self) -> bool:
        """Tell whether it runs (or is stopped by a signal)."""
        return self._process.poll() is None

    def said(self, words: str) -> int:
        """Count what it has said."""
        return self.log.read_text(errors="replace").count(words)

    def bury(self) -> int:
        """Wait for its end; return its exit code."""
        return self._process.wait(PATIENCE)

    def end(self) -> None:
        """Leave nothing of it behind."""
        below = descendants(self.pid)
        if self.alive:
            self.signal(signal.SIGKILL)
            self.signal(signal.SIGCONT)
            self._process.wait()
        wait_until_gone(below, PATIENCE)


class Candidates:
    """Some supervisors of one database. `route` leads the one at a place to its database by another way."""

    def __init__(
        self,
        url: str,
        folder: Path,
        ttl: float,
        count: int = 2,
        settings: dict[str, str] | None = None,
        route: Callable[[int, str], str] = lambda place, url: url,
        cwd: Path = ROOT,
        *,
        pooled: bool = False,
    ) -> None:
        self.url = url
        self._pooled = pooled  # whose sessions are whose cannot be told
        self.folder = folder
        self.ttl = ttl
        self.eye = Eye(url)
        self._route = route
        self._cwd = cwd
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FASTQ_")}
        self._environment = {
            **clean,
            **SETTINGS,
            "FASTQ_LEASE_TTL": str(ttl),
            "PYTHONUNBUFFERED": "1",
            "CHAOS_LEDGER": str(folder),
            **(settings or {}),
        }
        self.roles: list[str] = []
        self._fallen: set[int] = set()
        self.places: list[Supervisor] = []
        try:
            for place in range(count):
                self.places.append(self._start(place))
            self.await_ready()
        except BaseException:
            self.end()
            raise

    def _start(self, place: int) -> Supervisor:
        role = role_name(next(numbers))
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"create role {role} superuser login")
        self.roles.append(role)
        url = as_role(self._route(place, self.url), role)
        supervisor = Supervisor(url, role, self._environment, self.folder / f"supervisor-{place}.log", self._cwd)
        witness.enlist(self.url, role, supervisor.pid)
        return supervisor

    def leader(self) -> int:
        """Return the place of the leader, as soon as there is one among us."""
        pids = [supervisor.pid for supervisor in self.places]
        return pids.index(self.eye.until(lambda held: held.pid in pids).pid)

    def restart(self, place: int) -> None:
        """Start another supervisor where one was killed."""
        self.places[place].end()
        self.places[place] = self._start(place)

    def replace(self, place: int) -> None:
        """Restart the one at a place when they must be ready again."""
        self._fallen.add(place)

    def await_ready(self) -> None:
        """Wait until each of them stands for the lease and hears notifications."""
        while self._fallen:
            self.restart(self._fallen.pop())
        for place in range(len(self.places)):
            wait_for(lambda place=place: self.ready(place), PATIENCE, f"supervisor {place} to be ready, see {self.folder}")

    def ready(self, place: int) -> bool:
        """Tell whether a supervisor takes part: it has asked for the lease, listens, and its worker process has come."""
        supervisor = self.places[place]
        if not supervisor.alive:
            raise AssertionError(f"supervisor {place} has ended:\n{supervisor.log.read_text()[-2000:]}")
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                if self._pooled:
                    found = connection.execute(REGISTERED, [f"%:{supervisor.pid}:%", supervisor.role]).fetchone()
                else:
                    found = connection.execute(PRESENT, [supervisor.role]).fetchone()
        except psycopg.Error:
            return False
        return found == (True,)

    def end(self) -> None:
        """Stop everything and forget the roles."""
        for supervisor in self.places:
            supervisor.end()
        self.eye.close()
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True, connect_timeout=2) as connection:
            for role in self.roles:
                connection.execute(f"reassign owned by {role} to current_user")  # the partitions that it has made
                connection.execute(f"drop role {role}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def role_name(number: int) -> str:
    """Return the role of the supervisor with this number."""
    return f"fastq_{os.getpid()}_{number}"


def as_role(url: str, role: str) -> str:
    """Return a URL for another role."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{quote(role)}@{parts.netloc.rpartition('@')[2]}").geturl()
