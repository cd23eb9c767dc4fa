"""List the keys of unique jobs with the jobs that hold them, and give one up by hand, for an operator.

Runs in the caller's thread, such as the main thread of `fastq unique` and `fastq jobs`, over a connection of the caller's
(session.py), and keeps nothing; the clients run the same statements on their own sessions. A key is written in hexadecimal; its
first digits will do. It deliberately changes no job: a job that has lost its key runs as any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastq.admin.session import Ask, answered
from fastq.args.secret.hidden import concealed
from fastq.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

DIGITS = 64
"""Hexadecimal digits of a key: it is a digest of 32 bytes."""

SHORT = 12
"""Digits that are shown: of a million keys two begin with the same ones once in 500 times."""

LOOKED = 500
"""Keys that are looked at for a list: some 5 ms. Of more keys than these a list shows some, which nobody has chosen."""

FEWEST = 6
"""Digits that a key must be named by: with fewer, one finds others' keys."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key and the job that holds it; `state` and `kind` are None if that job is kept no longer."""

    key: str
    job_id: int
    state: str | None
    kind: str | None
    until: str  # 'start', 'success', 'end', or 'time': until `expires_at` alone
    since: datetime
    expires_at: datetime | None
    args_json: str | None


def list_keys(connection: Connection, limit: int = 50) -> list[KeyRow]:
    """Return the keys that are held, longest first."""
    return answered(connection, all_keys(limit))


def find_keys(connection: Connection, digits: str) -> list[KeyRow]:
    """Return the keys that are held and begin with these digits."""
    return answered(connection, _keys(digits))


def release_key(connection: Connection, digits: str) -> KeyRow | None:
    """Give up the key that begins with these digits, and return it with the job that held it; None if there is none."""
    return answered(connection, giving_up(digits))


def all_keys(limit: int) -> Asking[list[KeyRow]]:
    """List the keys that are held."""
    return _rows((yield Ask("unique_list", ("0" * DIGITS, "f" * DIGITS, limit, max(limit, LOOKED)))))


def giving_up(digits: str) -> Asking[KeyRow | None]:
    """Give up a key, as `release_key` does."""
    found = yield from _keys(digits)
    if len(found) > 1:
        raise OptionError(f"key {digits!r}: expected more digits, several keys begin with these")
    for row in found:
        [(gone,)] = yield Ask("unique_release", (row.key, row.job_id))
        if gone:
            return row
    return None


def _keys(digits: str) -> Asking[list[KeyRow]]:
    return _rows((yield Ask("unique_list", (*_range(digits), 2, LOOKED))))


def _rows(rows: Iterable[Sequence[Any]]) -> list[KeyRow]:
    found = (KeyRow(*row) for row in rows)
    return [replace(row, args_json=None if row.args_json is None else concealed(row.args_json)) for row in found]


def _range(digits: str) -> tuple[str, str]:
    """Return the first and the last key that begin so."""
    if not re.fullmatch(rf"[0-9a-fA-F]{{{FEWEST},{DIGITS}}}", digits):
        raise OptionError(f"key {digits!r}: expected {FEWEST} to {DIGITS} hexadecimal digits, as `fastq unique list` shows them")
    return digits.ljust(DIGITS, "0"), digits.ljust(DIGITS, "f")
