"""Say what needs somebody: a sentence about each thing that does not go on by itself, the worst first.

Runs in the caller's thread, over a connection of the caller's (admin/session.py), values in and values out; it keeps nothing.
Whether a thing is worth a notice is judged here alone: the dashboard's overview and `fastq top` show the same ones. All that it
asks is bounded.

It deliberately knows nothing of pages and keys: `about` names the thing, and each view knows where that is mended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from fastq import admin
from fastq.admin import leaders, periodic
from fastq.admin.queues import GLANCE, GLANCE_TOTAL
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.admin.leaders import ChoreRow, LeaseRow
    from fastq.admin.periodic import PeriodicRow
    from fastq.postgres.db import Connection

NAMED = 12
"""Keys of discarded jobs that are named one by one, as fit a list."""


class Notice(NamedTuple):
    """A thing that needs somebody."""

    grave: bool  # jobs stand still because of it, or were lost sight of
    text: str
    about: str  # 'leaders', 'queues', 'gates' or 'periodic'
    name: str = ""  # of the periodic job


def list_notices(connection: Connection, queues: list[admin.QueueRow]) -> list[Notice]:
    """Return the notices, those of jobs that stand still first; the caller has listed the queues already."""
    found = [
        *_leading(leaders.list_leases(connection), leaders.list_chores(connection)),
        *_queues(queues, admin.list_waiting(connection, GLANCE, GLANCE_TOTAL)),
        *_keys(admin.list_held(connection)),
        *(Notice(False, str(pause), "queues") for pause in admin.list_pauses(connection)),
        *_gates(admin.list_gates(connection, glance=True)),
        *_periodic(periodic.list_periodic(connection)),
    ]
    return sorted(found, key=lambda notice: not notice.grave)


def _leading(leases: list[LeaseRow], chores: list[ChoreRow]) -> Iterator[Notice]:
    held = {lease.name for lease in leases if lease.held}
    if "schema" not in held or not any(name.startswith("leader:") for name in held):
        yield Notice(True, "nobody leads: due jobs, gates, pauses with an end and periodic jobs stand still", "leaders")
    for chore in chores:
        if chore.error:
            yield Notice(True, f"the chore {chore.name} of {chore.lease} fails: {chore.error}", "leaders")


def _queues(queues: list[admin.QueueRow], waiting: list[admin.WaitingRow]) -> Iterator[Notice]:
    for queue in queues:
        if queue.unworked:
            jobs = queue.available + queue.scheduled + queue.retryable + queue.waiting
            yield Notice(True, f"no living process works queue '{queue.name}', which has {_plural(jobs, 'job')}", "queues")
    for kind in waiting:
        if not kind.known and kind.paused_at is None:
            yield Notice(True, f"{_plural(kind.jobs, 'job')} of kind '{kind.kind}': {kind.why}", "queues")


def _keys(held: list[admin.HeldRow]) -> Iterator[Notice]:
    discarded = [row for row in held if row.state is State.DISCARDED]
    for row in discarded[:NAMED]:
        yield Notice(True, f"job {row.job} was discarded and holds key {row.key} of gate '{row.gate}'", "gates")
    if len(discarded) > NAMED:
        yield Notice(True, f"{_plural(len(discarded) - NAMED, 'more key')} held by discarded jobs", "gates")
    if resting := len(held) - len(discarded):
        told = f"{_plural(resting, 'key')} {'stands' if resting == 1 else 'stand'} still"
        yield Notice(False, f"{told} while a job waits for its next attempt", "gates")


def _gates(gates: list[admin.GateRow]) -> Iterator[Notice]:
    for gate in gates:
        if gate.at_most == 0:
            verb = "waits" if gate.waiting == 1 else "wait"
            waits = f", and {_plural(gate.waiting, 'job')} {verb} there" if gate.waiting else ""
            yield Notice(bool(gate.waiting), f"gate '{gate.name}' is closed{waits}", "gates")


def _periodic(rows: list[PeriodicRow]) -> Iterator[Notice]:
    for row in rows:
        if row.error:
            text = f"the last tick of periodic job '{row.name}' could not be enqueued: {row.error}"
            yield Notice(True, text, "periodic", row.name)
        elif row.state == "no leader":
            text = f"periodic job '{row.name}' does not tick: nobody leads a domain that maintains '{row.queue}'"
            yield Notice(True, text, "periodic", row.name)
        elif row.definitions > 1:
            text = f"periodic job '{row.name}' has {row.definitions} definitions in living programs"
            yield Notice(False, text, "periodic", row.name)


def _plural(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
