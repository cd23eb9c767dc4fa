"""List the gates that jobs go through, with their numbers and counts; set and remove an operator's number, for an operator.

Plain functions, run in the main thread of `fastq gates`, over a connection of the caller's (`admin.connect` makes one), values in
and values out; they keep nothing, and a `_Found` lives for one call. The clients run the same statements on their own sessions
(enqueue/operate/). A number that is set stands in the table `gate` and prevails over the numbers in the code, in whatever
version; each change is an event, and one statement with a notification to the gatekeeper, which follows it at once, or within
IDLE of it (lead/gate/gatekeeper.py) should that be lost. An operator may also set the time and the burst of a rate.

A gate is known by its jobs and by its number. So one that is declared and has neither is not listed: no table knows the code.
Counts stop after COUNT jobs and LINES lines, so that a backlog of millions is listed as fast as another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from fastq.admin.session import Ask, answered
from fastq.args.gates import HOLDS, MOST, NAME, Entry, Ordered, read_entries
from fastq.args.rate import LEAST_PER, LONGEST_PER
from fastq.errors import OptionError
from fastq.events import emit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

COUNT = 100_000
"""Where counting stops, of the admitted jobs and of the waiting ones: some 100 ms of reading an index. A guess at a person's
patience, as for the queues."""

LINE_COUNT = 10_000
"""Where counting stops in one line: a line is the jobs of a queue with the same gates and keys."""

LINES, PAGE = 10_000, 2_000
"""Lines with waiting jobs that are looked at, and of the same first gate at a stretch: 10 us each, and a gate with a hundred
thousand keys does not hide the gates behind it."""

GLANCE_LINES, GLANCE_PAGE, GLANCE_COUNT = 200, 50, 20_000
"""Lines, lines of the same first gate, and jobs that are looked at for what people leave open: some 30 ms."""

BEYOND = "~"
"""A character that sorts behind the first one of each key: '{', '[', '"', a digit, '-', or a letter."""

UNREADABLE = Entry("", "?", msgspec.Raw(b'""'), 1, 0)
"""Stands in the list for gates that nobody can read: their jobs wait (lead/gate/sorts.py)."""

Value: TypeAlias = Sequence[Any]
"""The numbers that an operator has set: at most so many, and of a rate the seconds and the burst, or None."""

UNSET: Value = (None, None, None)

_lines = msgspec.json.Decoder(list[tuple[str, str]]).decode
_counted = msgspec.json.Decoder(list[tuple[str, str, int]]).decode


@dataclass(frozen=True, slots=True)
class GateRow:
    """One gate. With `more` the counts are too low: counting stopped at COUNT, or at LINE_COUNT in a line."""

    name: str
    sort: str | None  # 'limit', 'order', 'order-hold', 'fair' or 'rate'; None: no job goes through it now
    at_most: int | None  # the number that holds; None: it differs from job to job, as `defaults` says
    set_to: int | None  # by an operator
    defaults: list[int]  # the numbers in the code, as the living jobs have them
    keys: int  # with jobs
    admitted: int  # jobs
    waiting: int
    oldest: datetime | None  # when the oldest waiting job was enqueued
    more: bool
    per: float | None = None  # of a rate, in seconds, by an operator; None: that in the code holds
    burst: int | None = None  # likewise

    @property
    def state(self) -> str:
        """Say in a word whether jobs go through it, and whose number holds."""
        if self.at_most == 0:
            return "closed"
        if self.set_to is not None:
            return "set"
        return "open" if len(self.defaults) <= 1 else "differs"


class _Found:
    """One gate while its jobs are counted."""

    def __init__(self) -> None:
        self.sort: str | None = None
        self.defaults: set[int] = set()
        self.keys: set[bytes] = set()
        self.admitted = self.waiting = 0
        self.oldest: datetime | None = None
        self.more = False

    def row(self, name: str, value: Value, *, more: bool) -> GateRow:
        set_to, per, burst = value
        defaults = sorted(self.defaults)
        at_most = defaults[0] if set_to is None and len(defaults) == 1 else set_to
        if self.sort in (Ordered.sort, HOLDS) and at_most is not None:
            at_most = min(at_most, 1)  # as the gatekeeper has it: nobody can set more there
        counts = (len(self.keys), self.admitted, self.waiting, self.oldest)
        return GateRow(name, self.sort, at_most, set_to, defaults, *counts, self.more or more, per, burst)


def list_gates(connection: Connection, *, glance: bool = False) -> list[GateRow]:
    """Return the gates by name: those that living jobs go through, and those with a number that an operator has set.

    With `glance` counts stop sooner, and it takes some hundredths of a second.
    """
    return answered(connection, all_gates(glance=glance))


def set_gate(
    connection: Connection, name: str, at_most: int, *, per: float | None = None, burst: int | None = None
) -> int | None:
    """Set the number of a gate, from 0 (nothing is let go) on; return the number that was set before, or None.

    Of a rate also `per`, in seconds, and `burst`; without them those in the code hold. Other gates have no use for them.
    """
    return answered(connection, setting(name, at_most, per, burst))


def remove_gate(connection: Connection, name: str) -> int | None:
    """Let the code's numbers of a gate hold again; return the number that was set, or None if none was."""
    return answered(connection, removing(name))


def all_gates(*, glance: bool = False) -> Asking[list[GateRow]]:
    """List the gates."""
    found: dict[str, _Found] = {}
    count, most_lines, page = (GLANCE_COUNT, GLANCE_LINES, GLANCE_PAGE) if glance else (COUNT, LINES, PAGE)
    [(counted,)] = yield Ask("gate_admitted", (count,))
    admitted = _counted(counted) if counted else []
    for _, gates, jobs in admitted:
        for gate in _through(found, gates):
            gate.admitted += jobs
    lines, more = yield from _all_lines(most_lines, page)
    more = more or sum(jobs for *_, jobs in admitted) >= count
    most = max(1, min(LINE_COUNT, count // max(1, len(lines))))
    queues, texts = [queue for queue, _ in lines], [gates for _, gates in lines]
    for number, jobs, oldest in (yield Ask("gate_waiting", (queues, texts, most))) if lines else ():
        for gate in _through(found, texts[number - 1]):
            gate.waiting += jobs
            gate.more = gate.more or jobs >= most
            gate.oldest = min(gate.oldest or oldest, oldest)
    values: dict[str, Value] = {name: value for name, *value in (yield Ask("gate_values"))}
    nobody = _Found()
    return [found.get(name, nobody).row(name, values.get(name, UNSET), more=more) for name in sorted(found.keys() | values)]


def set_numbers(connection: Connection) -> dict[str, int]:
    """Return the numbers that operators have set, by gate."""
    return {name: at_most for name, at_most, *_ in connection.run("gate_values")}


def setting(name: str, at_most: int, per: float | None, burst: int | None) -> Asking[int | None]:
    """Set the numbers of a gate, as `set_gate` does."""
    _check(name)
    if not _counts(at_most):
        raise OptionError(f"gate '{name}': at_most={at_most!r}: expected a whole number from 0 to {MOST:,}; 0 closes the gate")
    given: object = per
    if given is not None and (
        isinstance(given, bool) or not isinstance(given, int | float) or not LEAST_PER <= given <= LONGEST_PER
    ):
        raise OptionError(f"gate '{name}': per={per!r}: expected seconds from {LEAST_PER:.0f} to {LONGEST_PER:,.0f}, or none")
    if burst is not None and not _counts(burst):
        raise OptionError(f"gate '{name}': burst={burst!r}: expected a whole number from 0 to {MOST:,}, or none")
    parameters = (name, at_most, None if per is None else float(per), burst)
    [(before, *_)] = yield Ask("gate_set", parameters, hints=True)
    emit("gate.set", gate=name, at_most=at_most, per=per, burst=burst, before=before)
    found: int | None = before
    return found


def removing(name: str) -> Asking[int | None]:
    """Remove the numbers of a gate, as `remove_gate` does."""
    _check(name)
    rows = yield Ask("gate_remove", (name,), hints=True)
    if not rows:
        return None
    before: int = rows[0][0]
    emit("gate.removed", gate=name, before=before)
    return before


def _counts(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MOST


def _check(name: str) -> None:
    if not NAME.fullmatch(name if type(name) is str else ""):
        raise OptionError(f"gate {name!r}: expected a name like 'mail-api', of letters, digits and '_.:/-'")


def _through(found: dict[str, _Found], gates: str) -> Iterable[_Found]:
    """Return the gates that the jobs of a line go through, and note what its text tells of them."""
    passed = []
    try:
        entries = read_entries(gates)
    except msgspec.MsgspecError:
        entries = [UNREADABLE]
    for entry in entries:
        gate = found.setdefault(entry.name, _Found())
        gate.sort = entry.sort
        gate.keys.add(bytes(entry.key))
        gate.defaults.add(entry.at_most)
        passed.append(gate)
    return passed


def _all_lines(most: int, size: int) -> Asking[tuple[list[tuple[str, str]], bool]]:
    """Return the lines with waiting jobs, so many at most, and whether some were left out."""
    lines: list[tuple[str, str]] = []
    at, more = ("", ""), False
    while len(lines) < most:
        [(answer,)] = yield Ask("gate_lines", (*at, size))
        page: list[Any] = _lines(answer) if answer else []
        lines += page
        if len(page) < size:
            return lines, more
        queue, gates = page[-1]
        at, more = (queue, _behind_gate(gates)), True
    return lines, True


def _behind_gate(gates: str) -> str:
    """Return a text that sorts behind the lines with the same first gate as this one."""
    try:
        name = f'"{read_entries(gates)[0].name}"'
        return f"{gates[: gates.index(name) + len(name)]},{BEYOND}"
    except (msgspec.MsgspecError, LookupError, ValueError):
        return gates
