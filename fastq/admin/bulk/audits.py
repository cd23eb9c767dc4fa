"""List the changes that operators have made: who changed which jobs, when, and how.

The `Asking` runs in the thread or event loop of the caller, on its session. Nothing is kept; the rows are the caller's. Each
change writes its record in its own transaction (single.py, operations.py), and the leader deletes old ones after
FASTQ_AUDIT_DAYS.

It deliberately changes nothing: a record is never edited.
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin.session import Ask
from fastq.args.faults import show
from fastq.errors import OptionError

if TYPE_CHECKING:
    from fastq.admin.session import Asking

LONGEST_NAME = 200
"""Characters of a name: user@host and some words."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change."""

    id: int
    at: datetime
    by: str  # as the program said it
    role: str  # of the database
    verb: str
    filter: str | None  # the words, of an operation
    job: int | None  # of a single change
    operation: int | None
    jobs: int  # that were changed; of an operation once it has ended
    change: dict[str, Any] | None


def somebody() -> str:
    """Name the user of the operating system that runs this program, and the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:LONGEST_NAME]


def audited(limit: int) -> Asking[list[AuditRow]]:
    """Return the newest records."""
    rows = yield Ask("audit_list", (limit,))
    return [AuditRow(*[*told, None if change is None else msgspec.json.decode(change)]) for *told, change in rows]


def check_by(by: object) -> str:
    """Return the name of the person or program that asks for a change, or raise OptionError; for None that of this user."""
    if by is None:
        return somebody()
    if not isinstance(by, str) or not by.isprintable() or not 0 < len(by) <= LONGEST_NAME:
        raise OptionError(f"by {show(by)}: expected the name of a person or a program, 1 to {LONGEST_NAME} printable characters")
    return by
