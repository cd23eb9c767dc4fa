"""List the keys that stand still, and release those that discarded jobs hold, for an operator.

Plain functions, run in the main thread of `fastq gates` and `fastq pauses`, over a connection of the caller's, values in and
values out; they keep nothing, and the clients run the same statements on their own sessions (enqueue/operate/). A key of a gate
in order stands still while its job does not run and others wait behind it: the job waits for its next attempt, or was discarded
and holds the key. A job in order (`Ordered(when_discarded="hold")`) that is discarded keeps its permit, so its key stays full and
nothing behind it starts. It gives the key up when somebody retries it, and then it goes first; when somebody deletes it; or when
the key is released here, which is an event.

The hold is the permit's row: it outlives leaders, restarts and the job's row in the archive. It deliberately ends with no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin.session import Ask, answered
from fastq.args.gates import HOLDS, Ordered, read_entries
from fastq.args.keyed import key_of
from fastq.events import emit
from fastq.jobs.job import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

MOST = 10_000
"""Keys that are listed: more than a person reads. A guess."""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A key that stands still: its job was discarded and holds it, or waits for its next attempt while others wait behind it."""

    gate: str
    key: str  # as JSON
    job: int
    queue: str
    kind: str | None  # None: retention has removed the job from the archive
    since: datetime | None  # the time at which the job was discarded, or at which its last attempt began
    state: State = State.DISCARDED  # or retryable, or scheduled: its worker has snoozed it
    until: datetime | None = None  # the time of its next attempt


def list_held(connection: Connection) -> list[HeldRow]:
    """Return the keys that stand still: first those that discarded jobs hold, by job, which nothing but an operator ends."""
    return answered(connection, all_held())


def release_held(connection: Connection, gate: str, key: object) -> list[int]:
    """Release a key; return the discarded jobs that held it. They stay discarded, and the jobs behind them go on."""
    return answered(connection, releasing(gate, key))


def all_held() -> Asking[list[HeldRow]]:
    """List the keys that stand still."""
    held = yield from _held()
    rows = yield Ask("gate_stalled", (MOST,))
    return held + [
        HeldRow(*at, job, queue, kind, since, State(state), until)
        for job, queue, gates, kind, state, since, until in rows
        for at in keys_in(gates, HOLDS, Ordered.sort)
    ]


def releasing(gate: str, key: object) -> Asking[list[int]]:
    """Release a key, as `release_held` does."""
    wanted = bytes(key_of(_itself, key, "release")).decode()
    held = yield from _held()
    jobs = [row.job for row in held if (row.gate, row.key) == (gate, wanted)]
    if not jobs:
        return []
    [(released, *_)] = yield Ask("gate_release", (jobs,), hints=True)
    if released:
        emit("gate.released", gate=gate, key=wanted, jobs=list(released))
    return list(released)


def keys_in(gates: str, *sorts: str) -> Iterator[tuple[str, str]]:
    """Give the gates of these sorts that a job goes through, each with the job's key there as JSON."""
    return ((entry.name, bytes(entry.key).decode()) for entry in read_entries(gates) if entry.sort in sorts)


def _held() -> Asking[list[HeldRow]]:
    rows = yield Ask("gate_held", (MOST,))
    return [HeldRow(*at, job, queue, kind, since) for job, queue, gates, kind, since, _ in rows for at in keys_in(gates, HOLDS)]


def read_key(text: str) -> Any:
    """Read a key that a person has written as JSON; a text that is no JSON stands for itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _itself(key: object) -> object:
    """Stand for the function that makes a key of args: the key is given."""
    return key
