"""Say in one sentence why a job is where it is, living or finished: for an operator, and for `client.why`.

Runs in the caller's thread or event loop; the clients run the statement themselves and make the sentence here, of plain values.
Nothing is kept. The statement looks at a bounded number of rows: where its counts have stopped, the sentence says so by a plus.

Of several reasons it gives the one that comes first in time: a job that waits at a gate of a paused queue waits at the gate. It
deliberately gives the reason and no forecast: nobody knows how soon there is room at a gate.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin.jobs import ATTEMPTS_TO_FIND, SIGNAL, named
from fastq.admin.pauses import PauseRow
from fastq.admin.queues import WaitingRow
from fastq.admin.workflows import read_placed
from fastq.args.gates import HOLDS, Fair, read_entries
from fastq.args.rate import Rate
from fastq.jobs.job import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.postgres.db import Connection

BEFORE = 10_000
"""Where counting stops of the jobs that come before one: some milliseconds, and more than a person tells apart."""

ADMITTED = 100_000
"""Where counting stops of the admitted jobs: some 100 ms; only a job that waits at a gate has them counted."""

CAUSES = {
    "asked": "somebody asked for that",
    "crashed": "its process died",
    "deadline": "its deadline left no time for an attempt",
    "expired": "it had not started by the time at which it expired",
    "rate": "it could not start at once, and its rate drops such jobs",
    "lost": "its process showed no life any more",
    "parent": "a job before it in its workflow was cancelled or discarded",
}
"""The causes of an end by their word in the job's meta; of 'failed' and 'worker' the error says more."""

_pauses = msgspec.json.Decoder(list[tuple[str, str, str, datetime, datetime | None, str | None, bool | None]]).decode
_gates = msgspec.json.Decoder(list[tuple[str, msgspec.Raw, int, int, int, int | None, str, list[Any], bool | None]]).decode


@dataclass(frozen=True, slots=True)
class Facts:
    """A row of job_why.sql. What is known of living jobs alone is None of a finished one."""

    id: int
    state: State
    kind: str
    queue: str
    attempt: int
    max_attempts: int
    scheduled_at: datetime | None
    attempted_at: datetime | None
    finalized_at: datetime | None
    error: str | None
    cancel_requested: bool
    waits_for: str | None
    cause: str | None
    host: str | None  # where it runs; None: the process has no row any more
    pid: int | None
    beats: bool | None  # the process lives
    is_due: bool | None
    pauses: str | None  # those that hold it, as JSON
    works: bool | None  # a living process works the queue
    knows: bool | None  # ... and has a worker for the kind
    domain_led: bool | None
    schema_led: bool | None
    before: int | None
    gates: str | None
    step: str | None  # of a step that waits for others or was cancelled because of one: its place in its workflow, as JSON
    locked_by: int | None  # a session of the server, in a transaction


def why_job(connection: Connection, job_id: int) -> str | None:
    """Say what a job waits for, in one sentence; None if there is no such job, or no longer."""
    for _ in range(ATTEMPTS_TO_FIND):
        if rows := connection.run("job_why", job_id, BEFORE, ADMITTED):
            return why_of(rows[0])
    return None


def why_of(row: Sequence[Any]) -> str:
    """Make the sentence of a row of job_why.sql."""
    values: dict[str, Any] = dict(zip((field.name for field in fields(Facts)), row, strict=True))
    values["state"] = State(values["state"])
    facts = Facts(**values)
    return f"job {facts.id} {SENTENCES[facts.state](facts)}{_locked(facts)}"


def _locked(facts: Facts) -> str:
    """Say that a transaction has the row locked, where that holds up the job: claims, promotions and admissions pass over it."""
    if facts.locked_by is None or not (facts.is_due or facts.state in (State.AVAILABLE, State.WAITING)):
        return ""
    return f"; its row is locked by a transaction (pid {facts.locked_by} in pg_stat_activity) and waits for its end"


def _later(facts: Facts) -> str:
    """Say for which time it waits: its first, or that of its next attempt."""
    if facts.is_due:
        return f"is due since {_time(facts.scheduled_at)}, and a leader makes it available" + _unless(facts.domain_led)
    when = f"waits until {_time(facts.scheduled_at)}"
    if told := _signalled(facts):
        return f"{when}, or {told}"
    if facts.state is State.RETRYABLE:
        return f"{when} for its next attempt: attempt {facts.attempt} of {facts.max_attempts} failed{_told(facts)}"
    return f"{when}, " + ("for its worker has snoozed it" if facts.attempted_at else "the time for which it was enqueued")


def _available(facts: Facts) -> str:
    """Give the reason why it is not claimed: a pause, no process, other jobs, or nothing."""
    if told := _paused(facts, "queue", "kind"):
        return f"waits because {told}"
    if not facts.works:
        return f"waits because no living process works queue '{facts.queue}'"
    if not facts.before:
        return f"is available, and the next to be claimed from queue '{facts.queue}'"
    return f"is available, {_behind(facts)} in queue '{facts.queue}'"


def _waiting(facts: Facts) -> str:
    if facts.gates is not None:
        if told := _paused(facts, "gate"):
            return f"waits because {told}"
        return f"waits at {_at_gates(facts)}" + _unless(facts.schema_led)
    if told := _paused(facts, "queue", "kind"):
        return f"waits because {told}"
    if facts.waits_for == "workflow":
        told = read_placed(facts.step).waits() if facts.step else "waits for the jobs before it in its workflow"
        return told + _unless(facts.schema_led)
    if told := _signalled(facts):
        return f"waits {told}"
    name = (facts.waits_for or facts.kind).removeprefix("worker:")
    return f"waits for a worker of its kind: {WaitingRow(facts.queue, name, 1, bool(facts.knows)).why}"


def _signalled(facts: Facts) -> str:
    """Name the signal that a parked job waits for; nothing if it waits for none."""
    if facts.waits_for is None or not facts.waits_for.startswith(SIGNAL):
        return ""
    return f"for the signal '{facts.waits_for.removeprefix(SIGNAL)}', which client.signal sends"


def _at_gates(facts: Facts) -> str:
    """Name the gates of the job that have no room for it, and how many jobs come before it."""
    gates = _gates(facts.gates or "[]")
    full = [gate for gate in gates if gate[6] == Rate.sort or not _has_room(*gate[2:5])]
    if not full:
        names = " and at ".join(named(name, key) for name, key, *_ in gates)
        return f"{names}, where there is room, " + (_behind(facts) if facts.before else "and is let go next")
    told = [named(gate[0], gate[1]) + _taken(gate) for gate in full]
    return " and at ".join(told) + (f", {_behind(facts)}" if facts.before else "") + _soonest(gates, facts.before or 0)


def _has_room(weight: int, at_most: int, taken: int) -> bool:
    """Tell whether the gatekeeper would let the job go (lead/gate/keeper.py has the rule)."""
    return taken + weight <= at_most or (taken == 0 and weight > at_most > 0)


def _soonest(gates: list[tuple[str, msgspec.Raw, int, int, int, int | None, str, list[Any], bool | None]], before: int) -> str:
    """Say how long the jobs before it take at its slowest rate, if they had the key for themselves."""
    rates = [(weight, at_most, *more) for _, _, weight, at_most, _, _, sort, more, _ in gates if sort == Rate.sort and at_most]
    seconds = max((max(0, before - burst) * weight * per / at_most for weight, at_most, per, burst, *_ in rates), default=0.0)
    return f", and may start in {seconds:,.0f} s at the earliest" if seconds >= 1 else ""


def _taken(gate: tuple[str, msgspec.Raw, int, int, int, int | None, str, list[Any], bool | None]) -> str:
    name, key, weight, at_most, taken, job, sort, further, held = gate
    if held:
        return f": job {job} was discarded and holds it ({_remedies(name, key, job)})"
    if not at_most:
        return f", which is closed (fastq gates set {name} N opens it)"
    if sort == Rate.sort:
        return f": {at_most:,} may start in {further[0]:g} s" + (f", and it counts as {weight:,}" if weight > 1 else "")
    more = "+" if taken >= ADMITTED else ""
    needs = f", {weight:,} needed" if weight > 1 else ""
    which = "" if job is None else f" (job {job})"
    turns = " of all keys, which take turns" if sort == Fair.sort else ""
    return f": {taken:,}{more} of {at_most:,} admitted{which}{turns}{needs}"


def _remedies(name: str, key: msgspec.Raw, job: int | None) -> str:
    """Say how the jobs behind a discarded one that holds a key go on."""
    return (
        f"fastq jobs retry {job} runs it again, fastq gates release {name} {shlex.quote(bytes(key).decode())} goes on without it"
    )


def _running(facts: Facts) -> str:
    since = f"since {_time(facts.attempted_at)}, attempt {facts.attempt} of {facts.max_attempts}"
    asked = ", and was asked to end" if facts.cancel_requested else ""
    if not facts.beats:
        gone = "a process that shows no life" + (f" ({facts.host}, pid {facts.pid})" if facts.host else "")
        return f"runs in {gone} {since}{asked}, and a leader gives it back" + _unless(facts.domain_led)
    return f"runs on {facts.host} (pid {facts.pid}) {since}{asked}"


def _completed(facts: Facts) -> str:
    return f"has completed at {_time(facts.finalized_at)}, in attempt {facts.attempt}"


def _cancelled(facts: Facts) -> str:
    placed = read_placed(facts.step) if facts.step else None
    told = f", as step {placed.step} of workflow {placed.workflow}: {placed.causes()}" if placed and placed.because else ""
    return f"was cancelled at {_time(facts.finalized_at)}{told or _because(facts)}"


def _discarded(facts: Facts) -> str:
    told = f"was discarded at {_time(facts.finalized_at)}, after attempt {facts.attempt} of {facts.max_attempts}{_because(facts)}"
    held = [entry for entry in read_entries(facts.gates or "[]") if entry.sort == HOLDS]
    return told + "".join(
        f"; it holds {named(gate.name, gate.key)} ({_remedies(gate.name, gate.key, facts.id)})" for gate in held
    )


SENTENCES = {
    State.SCHEDULED: _later,
    State.RETRYABLE: _later,
    State.AVAILABLE: _available,
    State.WAITING: _waiting,
    State.RUNNING: _running,
    State.COMPLETED: _completed,
    State.CANCELLED: _cancelled,
    State.DISCARDED: _discarded,
}
"""How to tell of a job in each state."""


def _because(facts: Facts) -> str:
    cause = CAUSES.get(facts.cause or "")
    return f": {cause}" if cause else _told(facts)


def _told(facts: Facts) -> str:
    """Return the first line of the last error, behind a colon."""
    first = (facts.error or "").partition("\n")[0]
    return f": {first}" if first else ""


def _behind(facts: Facts) -> str:
    """Write `behind 1 job`, `behind 2 jobs`, `behind 10,000+ jobs`."""
    before = facts.before or 0
    return f"behind {before:,}{'+' if before >= BEFORE else ''} job{'' if before == 1 else 's'}"


def _paused(facts: Facts, *sorts: str) -> str:
    """Say which pauses of these sorts hold the job, since when, until when and why; nothing if there is none."""
    found = [row for row in _pauses(facts.pauses or "[]") if row[0] in sorts]
    told = ", and ".join([str(PauseRow(*row[:6])) for row in found])
    over = any(row[6] for row in found)
    return told + (_unless(facts.schema_led) if over else "")


def _unless(led: bool | None) -> str:
    """Say that there is no leader to do that, if so."""
    return "" if led else "; but nobody leads now, so it waits for a fastq run that does"


def _time(when: datetime | None) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if when is not None else "an unknown time"
