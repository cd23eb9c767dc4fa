"""Define a chore and its arguments: a piece of maintenance that a leader does again and again, a batch at a time.

Runs in the threads of a term (term.py), in the leader's supervisor: the thread that starts the term makes a chore and calls its
`start`, and after that the thread of its track calls `run` and `end`. A chore is made anew for each start of a term, so it may
keep its knowledge on `self`; nothing of it outlives the term.

Invariants:
- Each write of a chore goes through `Site.write`, which puts the term's fence before the parameters; a statement that comes
  too late does nothing, is counted, and ends the term.
- `run` does one bounded batch and returns; between two batches the other chores of the same thread get their turn.
- Done twice, or by two leaders at once, a chore does no harm: its statements re-check the rows that they change.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from fastq.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.config import Config
    from fastq.leases.lease import Fence
    from fastq.postgres.db import Connection


class Chore(Protocol):
    """A chore; `fastq leader` shows its `name`."""

    name: str

    def start(self, site: Site) -> None:
        """Do the steps that must succeed once before the term begins its work; if it raises, all of it is tried again."""

    def run(self, site: Site) -> float:
        """Do one batch; return in how many seconds to come again."""
        ...

    def end(self, site: Site, reason: str) -> None:
        """Clean up: the term ends by 'stop' (of the program), 'resign' or 'lost' (somebody else may lead already)."""


class Site:
    """The place where a chore works: a connection of its thread, the fence of its term, and the queues of its domain.

    Made by the thread that starts the term, one for each track; after that the track's thread alone writes it.
    """

    def __init__(self, connection: Connection, fence: Fence, config: Config, url: str, ending: Callable[[float], bool]) -> None:
        self.connection = connection  # the track replaces one that was lost; the main thread cuts its overdue statements
        self.fence = fence
        self.config = config
        self.url = url
        self.queues: list[str] | None = None  # that the domain maintains, as domains.py found them; None: every queue
        self.changed = 0  # rows that the chore changed in this run; it adds to it, the term takes it away
        self.woken = False  # whether a hint calls for this run; the track writes it
        self._ending = ending

    def write(self, name: str, *params: object) -> tuple[Any, ...]:
        """Run a fenced statement: its parameters begin with the fence, its one row with 1 while the term holds, else 0."""
        held, *row = self.connection.run_one(name, *self.fence, *params)
        if not held:
            raise LeaseLost(f"term {self.fence.term} of '{self.fence.name}' is over: {name} did nothing")
        return tuple(row)

    def nap(self, seconds: float) -> bool:
        """Rest between batches; True when the term ends meanwhile."""
        return self._ending(seconds)


@contextmanager
def block_ranges(site: Site) -> Iterator[None]:
    """Let block ranges be read: sessions of ours rule out bitmap scans, since other statements have an exact index each."""
    pinned = not site.config.poll_only
    if pinned:
        site.connection.execute("set enable_bitmapscan = on")
    try:
        yield
    finally:
        if pinned and site.connection.usable:
            site.connection.execute("set enable_bitmapscan = off")


@contextmanager
def transaction(site: Site) -> Iterator[None]:
    """Run statements of a chore as one: the first of them holds the lease until the end."""
    # A leader that freezes here holds its lease and these workflows no longer than it would be trusted.
    frozen = max(1, int(site.config.lease_ttl / 2 * 1000))
    try:
        site.connection.execute(f"begin; set local idle_in_transaction_session_timeout = {frozen}")
        yield
    except BaseException:
        if site.connection.usable:
            site.connection.execute("rollback")
        raise
    site.connection.execute("commit")
