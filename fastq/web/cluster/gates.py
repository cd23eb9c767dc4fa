"""Limits and keys: gates with their numbers, keys that stand still, and the keys of unique jobs; setting, removing, releasing.

The functions run in the program that serves the dashboard, in the threads that read for it (live/source.py), over the connection
of one visit. They keep nothing: rows are values of that visit, and each change is that of admin/. Names and keys stand in
parameters of the address, since they may have any characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.admin.held import read_key
from fastq.errors import OptionError
from fastq.jobs.job import State
from fastq.web.routing.view import Action, Asked, Done, Field, Missing, View, decimal, whole

if TYPE_CHECKING:
    from fastq.admin.gates import GateRow
    from fastq.web.routing.view import Visit

KEYS, HELD = 20, 20
"""Unique keys, and keys that stand still, that are listed: the longest held ones. More of them would make the page large."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read gates, keys that stand still, unique keys and pauses."""
    connection = visit.connection
    held = admin.list_held(connection)
    return {
        "gates": admin.list_gates(connection, glance=True),
        "held": [row for row in held if row.state is State.DISCARDED][:HELD],
        "held_in_all": sum(row.state is State.DISCARDED for row in held),
        "resting": [row for row in held if row.state is not State.DISCARDED][:HELD],
        "keys": [(row, _args(visit, row)) for row in admin.list_keys(connection, KEYS)],
        "pauses": [pause for pause in admin.list_pauses(connection) if pause.sort == "gate"],
        "shown": KEYS,
    }


def _args(visit: Visit, row: admin.KeyRow) -> Any:
    """Return the args of a key's job, redacted; without a kind nobody could say how, so there are none."""
    if row.args_json is None or row.kind is None:
        return None
    return visit.redaction.stored(row.kind, "args", row.args_json)


def _ask_set(visit: Visit) -> Asked:
    name = visit.need("name")
    row = _row(visit, name)
    facts = () if row is None else _facts(row)
    number = "" if row is None or row.at_most is None else str(row.at_most)
    fields = [Field("number", "At most", number, "0 closes the gate", number=True, required=True)]
    if row is not None and row.sort == "rate":
        per = "" if row.per is None else f"{row.per:g}"
        burst = "" if row.burst is None else str(row.burst)
        fields.append(Field("per", "In so many seconds", per, "empty: as the code says", number=True))
        fields.append(Field("burst", "Burst", burst, "empty: as the code says", number=True))
    explained = "It prevails over the number in the code, on all hosts, until it is removed."
    return Asked(f"Set the number of gate '{name}'?", f"gate '{name}'", "/gates", facts, explained, tuple(fields))


def _row(visit: Visit, name: str) -> GateRow | None:
    """Return a gate; one that a glance does not see is looked for longer."""
    for glance in (True, False):
        for row in admin.list_gates(visit.connection, glance=glance):
            if row.name == name:
                return row
    return None


def _facts(row: GateRow) -> tuple[tuple[str, str], ...]:
    code = ", ".join(f"{number:,}" for number in row.defaults) or "not known now"
    return (
        ("sort", row.sort or "no job goes through it now"),
        ("number in the code", code),
        ("set by an operator", "no" if row.set_to is None else f"{row.set_to:,}"),
        ("jobs", f"{row.admitted:,} let go, {row.waiting:,} wait"),
    )


def _set(visit: Visit) -> Done:
    name, form = visit.need("name"), visit.form
    number = whole("at most", form.get("number", ""))
    per, burst = form.get("per", "").strip(), form.get("burst", "").strip()
    before = admin.set_gate(
        visit.connection, name, number, per=decimal("per", per) if per else None, burst=whole("burst", burst) if burst else None
    )
    return Done(f"gate '{name}' has the number {number:,}" + ("" if before is None else f", it had {before:,}"))


def _ask_remove(visit: Visit) -> Asked:
    name = visit.need("name")
    row = _row(visit, name)
    explained = "The number in the code holds again, in whatever version runs."
    return Asked(
        f"Remove the number of gate '{name}'?", f"gate '{name}'", "/gates", () if row is None else _facts(row), explained
    )


def _remove(visit: Visit) -> Done:
    name = visit.need("name")
    before = admin.remove_gate(visit.connection, name)
    return Done(
        f"gate '{name}' " + ("had no number" if before is None else f"had {before:,}; that of the code holds"), before is not None
    )


def _ask_release(visit: Visit) -> Asked:
    gate, key = visit.need("name"), visit.need("key")
    row = next((row for row in admin.list_held(visit.connection) if (row.gate, row.key) == (gate, key)), None)
    if row is None or row.state is not State.DISCARDED:
        raise Missing(f"no discarded job holds key {key[:100]} of gate '{gate[:100]}', or no longer")
    facts = (("gate", gate), ("key", key), ("discarded job", f"{row.job} of kind {row.kind or 'unknown'}"), ("queue", row.queue))
    explained = "The jobs behind it go on without it. It stays discarded; to run it first, retry it instead."
    return Asked(f"Release key {key} of gate '{gate}'?", f"key {key} of gate '{gate}'", "/gates", facts, explained)


def _release(visit: Visit) -> Done:
    gate, key = visit.need("name"), visit.need("key")
    released = admin.release_held(visit.connection, gate, read_key(key))
    return Done(f"key {key} of gate '{gate}' " + ("is released" if released else "was not held"), bool(released))


def _ask_unique(visit: Visit) -> Asked:
    rows = admin.find_keys(visit.connection, visit.need("key"))
    if len(rows) != 1:
        raise Missing("no such key is held, or no longer")
    [row] = rows
    facts = (("key", row.key), ("job", str(row.job_id)), ("kind", row.kind or "unknown"), ("held until", row.until))
    explained = "The next enqueue with this key makes a job, whatever becomes of the one that holds it now."
    return Asked("Give this unique key up?", f"unique key {row.key[:12]}", "/gates", facts, explained)


def _unique(visit: Visit) -> Done:
    row = admin.release_key(visit.connection, visit.need("key"))
    if row is None:
        raise OptionError("key: it is not held any more")
    return Done(f"unique key {row.key[:12]} of job {row.job_id} is given up")


CONTENT = (
    View("/gates", "Limits & keys", "gates.read", "gates.html", load, every=3.0, menu=True),
    Action("/gates/set", "Set it", "gates.set", _ask_set, _set),
    Action("/gates/remove", "Remove it", "gates.set", _ask_remove, _remove),
    Action("/gates/release", "Release it", "gates.release", _ask_release, _release, severe=True),
    Action("/unique/release", "Give it up", "unique.release", _ask_unique, _unique, severe=True),
)
