"""The overview: what runs, what needs somebody, and what the last hour was like.

`load` runs in a thread of the source, over its connection, every two seconds while somebody looks; all that it asks is bounded. A
notice is a sentence about one thing that does not go on by itself, with the page where it is mended. The worst come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq import admin
from fastq.admin import leaders, periodic, statistics
from fastq.admin.dead.lately import Lately, list_lately
from fastq.admin.running import list_processes, list_running
from fastq.jobs.job import State
from fastq.web.look.charts import columns, stacked
from fastq.web.look.rendering import address
from fastq.web.look.wording import plural
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.admin.leaders import ChoreRow, LeaseRow
    from fastq.admin.periodic import PeriodicRow
    from fastq.web.routing.view import Visit

LATELY = 3_600.0
"""Seconds back for which statistics and discarded jobs are told: a shift's memory of now. A guess."""

SHOWN, RUNNING, COUNTED = 12, 200, 10_000
"""Rows of a table, running jobs that are counted, and where counts of jobs that wait for a worker stop."""

STATES = ("running", "available", "scheduled", "retryable", "waiting")
"""The states of living jobs, in the order of the charts."""


NEEDS = {"/leaders": "leaders.read", "/queues": "queues.read", "/gates": "gates.read", "/periodic/show": "periodic.read"}
"""The permissions of the pages of notices."""


class Notice(NamedTuple):
    """A thing that needs somebody."""

    grave: bool  # jobs stand still because of it, or were lost sight of
    text: str
    path: str  # the page about it

    @property
    def needs(self) -> str:
        """Return the permission of that page: a viewer without it is not told what stands there."""
        return NEEDS[self.path.partition("?")[0]]


def load(visit: Visit) -> Mapping[str, Any]:
    """Read what runs and what needs somebody."""
    connection = visit.connection
    queues = admin.list_queues(connection)
    processes = list_processes(connection)
    running = list_running(connection, RUNNING)
    lately = list_lately(connection, LATELY)
    leases, chores = leaders.list_leases(connection), leaders.list_chores(connection)
    notices = [
        *_leading(leases, chores),
        *_queues(queues, admin.list_waiting(connection, COUNTED)),
        *_keys(admin.list_held(connection)),
        *_pauses(admin.list_pauses(connection)),
        *_gates(admin.list_gates(connection)),
        *_periodic(periodic.list_periodic(connection)),
    ]
    bars = [(queue, _counts(queue)) for queue in queues]
    most = max((sum(count for _, count in counts) for _, counts in bars), default=0)
    groups = [(group, visit.redaction.text(group.kind, "error", group.shape)) for group in lately.groups]
    return {
        "notices": sorted(notices, key=lambda notice: not notice.grave),
        "tiles": _tiles(queues, lately, sum(process.lives for process in processes)),
        "running": running[:SHOWN],
        "more_running": max(0, len(running) - SHOWN),
        "groups": groups[:SHOWN],
        "bars": [(queue, stacked(counts, most), sum(count for _, count in counts)) for queue, counts in bars[: 2 * SHOWN]],
        "more_queues": max(0, len(bars) - 2 * SHOWN),
        "states": STATES,
        "hour": next(iter(statistics.stats(connection, LATELY)), None),
        "minutes": columns(statistics.stats(connection, LATELY, step="minute"), datetime.now(UTC)),
        "processes": sum(process.lives for process in processes),
    }


def _counts(queue: admin.QueueRow) -> list[tuple[str, int]]:
    numbers = (queue.claimed, queue.available, queue.scheduled, queue.retryable, queue.waiting)
    return list(zip(STATES, numbers, strict=True))


def _tiles(queues: list[admin.QueueRow], lately: Lately, processes: int) -> list[tuple[str, int, str, bool]]:
    """Return the numbers on top: words, number, page, and whether there are more."""
    sums = {state: sum(dict(_counts(queue))[state] for queue in queues) for state in STATES}
    tiles = [(state, sums[state], address("/jobs", state=state), False) for state in STATES]
    tiles.append(("discarded in 1\N{NO-BREAK SPACE}h", lately.jobs, address("/dead", since="1h"), lately.more))
    tiles.append(("processes", processes, "/hosts", False))
    return tiles


def _leading(leases: list[LeaseRow], chores: list[ChoreRow]) -> Iterator[Notice]:
    held = {lease.name for lease in leases if lease.held}
    if "schema" not in held or not any(name.startswith("leader:") for name in held):
        yield Notice(True, "nobody leads: due jobs, gates, pauses with an end and periodic jobs stand still", "/leaders")
    for chore in chores:
        if chore.error:
            yield Notice(True, f"the chore {chore.name} of {chore.lease} fails: {chore.error}", "/leaders")


def _queues(queues: list[admin.QueueRow], waiting: list[admin.WaitingRow]) -> Iterator[Notice]:
    for queue in queues:
        if queue.unworked:
            jobs = queue.available + queue.scheduled + queue.retryable + queue.waiting
            yield Notice(True, f"no living process works queue '{queue.name}', which has {plural(jobs, 'job')}", "/queues")
    for kind in waiting:
        if not kind.known and kind.paused_at is None:
            yield Notice(True, f"{plural(kind.jobs, 'job')} of kind '{kind.kind}': {kind.why}", "/queues")


def _keys(held: list[admin.HeldRow]) -> Iterator[Notice]:
    discarded = [row for row in held if row.state is State.DISCARDED]
    for row in discarded[:SHOWN]:
        yield Notice(True, f"job {row.job} was discarded and holds key {row.key} of gate '{row.gate}'", "/gates")
    if len(discarded) > SHOWN:
        yield Notice(True, f"{plural(len(discarded) - SHOWN, 'more key')} held by discarded jobs", "/gates")
    if resting := len(held) - len(discarded):
        what = plural(resting, "key stands still", "keys stand still")
        yield Notice(False, f"{what} while a job waits for its next attempt", "/gates")


def _pauses(pauses: list[admin.PauseRow]) -> Iterator[Notice]:
    for pause in pauses:
        yield Notice(False, str(pause), "/queues")


def _gates(gates: list[admin.GateRow]) -> Iterator[Notice]:
    for gate in gates:
        if gate.at_most == 0:
            jobs = f", and {plural(gate.waiting, 'job waits', 'jobs wait')} there" if gate.waiting else ""
            yield Notice(bool(gate.waiting), f"gate '{gate.name}' is closed{jobs}", "/gates")


def _periodic(rows: list[PeriodicRow]) -> Iterator[Notice]:
    for row in rows:
        path = address("/periodic/show", name=row.name)
        if row.error:
            yield Notice(True, f"the last tick of periodic job '{row.name}' could not be enqueued: {row.error}", path)
        elif row.state == "no leader":
            yield Notice(
                True, f"periodic job '{row.name}' does not tick: nobody leads a domain that maintains '{row.queue}'", path
            )
        elif row.definitions > 1:
            yield Notice(False, f"periodic job '{row.name}' has {row.definitions} definitions in living programs", path)


CONTENT = (View("/", "Overview", "overview.read", "overview.html", load, every=2.0, menu=True),)
