"""The costs of a run: CPU of Postgres and of our processes, WAL, memory, as the kernel and Postgres count them.

Run in the main thread of the program that measures, between two moments; a `Meter` keeps the pid of the postmaster alone. CPU
comes from /proc: the nanoseconds of each thread (schedstat) where the kernel keeps them, else the ticks of 10 ms. For Postgres
that is the postmaster and all its children, helpers included, and those that ended in between; so other work on the same server
is counted too. For a server on another machine there is no figure rather than a wrong one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastq.work.telling import memory_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.postgres.db import Connection

PROC = Path("/proc")
TICK = 1 / os.sysconf("SC_CLK_TCK")
_WAL = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"


class Spent(NamedTuple):
    """CPU seconds of Postgres (None: on another machine) and of the program with all its processes; bytes of WAL."""

    postgres: float | None
    program: float
    wal: int

    def since(self, before: Spent) -> Spent:
        """Return the costs between two readings."""
        postgres = None if self.postgres is None or before.postgres is None else self.postgres - before.postgres
        return Spent(postgres, self.program - before.program, self.wal - before.wal)


class Meter:
    """Reads the costs so far."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postmaster = postmaster(connection)

    def read(self, program: int) -> Spent:
        """Read all meters; `program` is the pid of the program that is measured."""
        wal = int(self._connection.execute(_WAL)[0][0])
        postgres = None if self._postmaster is None else tree_seconds(self._postmaster)
        return Spent(postgres, tree_seconds(program), wal)


def postmaster(connection: Connection) -> int | None:
    """Return the pid of the postmaster if it runs on this machine, where we can see it."""
    info = connection.raw.info
    if not (info.host.startswith("/") or info.hostaddr in ("127.0.0.1", "::1")):
        return None
    try:
        if not (PROC / str(connection.backend_pid) / "cmdline").read_bytes().startswith(b"postgres: "):
            return None  # the server has a pid namespace of its own
        return _parent(connection.backend_pid)
    except OSError:
        return None


def tree(root: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        try:
            children.setdefault(_parent(pid), []).append(pid)
        except OSError:
            continue
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def tree_seconds(root: int) -> float:
    """Return the CPU seconds of a process and its descendants, and of those that its living members have outlived."""
    total = 0.0
    for pid in tree(root):
        try:
            fields = _stat(pid)
            total += _own_seconds(pid, fields) + (int(fields[13]) + int(fields[14])) * TICK
        except OSError:
            continue
    return total


def _own_seconds(pid: int, fields: list[str]) -> float:
    try:
        threads = [(thread / "schedstat").read_text().split() for thread in (PROC / str(pid) / "task").iterdir()]
        return sum(int(nanoseconds) for nanoseconds, *_ in threads) / 1e9
    except (OSError, ValueError):
        return (int(fields[11]) + int(fields[12])) * TICK


def memory(pid: int) -> dict[str, int]:
    """Return resident, proportional and shared bytes of a process; empty where the kernel does not tell."""
    return memory_of(PROC / str(pid) / "smaps_rollup")


def title(pid: int) -> str:
    """Return the title of a process."""
    return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: 0 state, 1 parent, 11 and 12 own ticks, 13 and 14 dead children's."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _pids() -> Iterator[int]:
    return (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
