"""List the keys that discarded jobs hold, and release them, for an operator.

Plain functions, run in the main thread of `fastq gates` and `fastq pauses`, over a connection of the caller's, values in and
values out; they keep nothing. A job in order (`Ordered(when_discarded="hold")`) that is discarded keeps its permit, so its key
stays full and nothing behind it starts. It gives the key up when somebody retries it, and then it goes first; when somebody
deletes it; or when the key is released here.

The hold is the permit's row: it outlives leaders, restarts and the job's row in the archive. It deliberately ends with no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.gates import HOLDS, read_entries
from fastq.args.keyed import key_of
from fastq.postgres import hints

if TYPE_CHECKING:
    from datetime import datetime

    from fastq.postgres.db import Connection

MOST = 10_000
"""Keys that are listed: more than a person reads. A guess."""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A key that a discarded job holds."""

    gate: str
    key: str  # as JSON
    job: int
    queue: str
    kind: str | None  # None: retention has removed the job from the archive
    since: datetime | None  # the time at which the job was discarded


def list_held(connection: Connection) -> list[HeldRow]:
    """Return the keys that discarded jobs hold, by job."""
    return [
        HeldRow(entry.name, bytes(entry.key).decode(), job, queue, kind, since)
        for job, queue, gates, kind, since in connection.run("gate_held", MOST)
        for entry in read_entries(gates)
        if entry.sort == HOLDS
    ]


def release_held(connection: Connection, gate: str, key: object) -> list[int]:
    """Release a key; return the discarded jobs that held it. They stay discarded, and the jobs behind them go on."""
    wanted = bytes(key_of(_itself, key, "release")).decode()
    jobs = [row.job for row in list_held(connection) if (row.gate, row.key) == (gate, wanted)]
    if not jobs:
        return []
    released, _ = hints.sending(connection, lambda channel: connection.run_one("gate_release", jobs, channel))
    return list(released)


def read_key(text: str) -> Any:
    """Read a key that a person has written as JSON; a text that is no JSON stands for itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _itself(key: object) -> object:
    """Stand for the function that makes a key of args: the key is given."""
    return key
