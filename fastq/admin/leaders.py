"""Show the leaders, their leases and the last runs of their chores to an operator, and ask a leader to resign.

Runs in the caller's thread, which is the main thread of `fastq leader`, over a connection of the caller's (session.py); it keeps
nothing. The leases' rows are written by electors, those of chores by terms. A request to resign names the term that it is meant
for: sent twice, or too late, it ends no other term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastq.postgres import hints

if TYPE_CHECKING:
    from datetime import datetime

    from fastq.postgres.db import Connection


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One lease: `holder` is '' for nobody, `expires_in` is below 0 when it has run out."""

    name: str
    holder: str
    term: int
    ttl: float
    acquired_at: datetime | None
    expires_in: float | None
    queues: list[str] | None  # None: not a named domain's
    resigning: bool

    @property
    def held(self) -> bool:
        """Tell whether somebody holds it."""
        return bool(self.holder) and self.expires_in is not None and self.expires_in > 0


@dataclass(frozen=True, slots=True)
class ChoreRow:
    """The last run of a chore."""

    lease: str
    name: str
    term: int
    ran_at: datetime
    took: float
    runs: int  # in this term
    changed: int  # rows in this term
    fenced: int  # statements that came too late
    error: str | None


def list_leases(connection: Connection) -> list[LeaseRow]:
    """Return all leases: of leaders ('leader:DOMAIN', 'schema'), of singletons and of users."""
    return [LeaseRow(*row) for row in connection.run("lease_list")]


def list_chores(connection: Connection) -> list[ChoreRow]:
    """Return the last runs of the leaders' chores; they are noted within 5 s if rows were changed, otherwise within a minute."""
    return [ChoreRow(*row) for row in connection.run("chore_list")]


def resign(connection: Connection, lease: str, term: int | None = None) -> LeaseRow | None:
    """Ask the holder to give a lease up, in the present term or only in this one; None if nobody holds it (in that term)."""
    asked = hints.sending(connection, lambda channel: connection.run("lease_resign", lease, term, channel))
    return next((row for row in list_leases(connection) if row.name == lease), None) if asked else None
