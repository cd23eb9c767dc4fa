"""Pause a queue, a kind, a gate, a key of a gate, or everything, and resume it; list the pauses, for an operator and for clients.

The functions run in the caller's thread, over a connection of the caller's (session.py), and own nothing; the clients run the
same statements on their own sessions (enqueue/operate/). A `PauseRow` is made where somebody asks: here of the rows of
pause_list.sql, and by queues.py and why.py of a column of theirs. These two turn it into text, and so do the commands, in their
main threads. The leader's chore takes `named_so`, in its track's thread. Each change is an event, in the program that makes it. A
pause may have an end: the schema's leader resumes what is due (lead/chores/pauses.py).

The claim looks at the pause of its queue, and at that of all queues, the row '*'. A worker process treats a paused kind as one
that it does not know (work/claim/paused.py), and the gatekeeper lets no job go at a paused gate or key. So a pause stops no job
that has been claimed, and enqueueing knows nothing of pauses.

It deliberately does not check that there is such a queue, kind or gate: one may be paused before its first job comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from fastq.admin.jobs import named
from fastq.admin.session import Ask, answered
from fastq.args.faults import show
from fastq.args.gates import NAME
from fastq.args.keyed import key_of
from fastq.args.meta import quoted
from fastq.args.options import MAX_DELAY, check_kind_name, check_queue
from fastq.errors import OptionError
from fastq.events import emit

if TYPE_CHECKING:
    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

ALL = "*"
"""The name that stands for all queues in the table `queue`; no queue can have it."""

LONGEST_REASON = 500
"""Characters of a reason: a sentence or two, since it is shown on one line."""


class Target(TypedDict, total=False):
    """The thing to pause or to resume: one of `queue`, `kind`, `gate` (with `key` one of its keys), or `everything=True`."""

    queue: str
    kind: str
    gate: str
    key: object
    everything: bool


@dataclass(frozen=True, slots=True)
class PauseRow:
    """One pause."""

    sort: str  # 'queue', 'kind' or 'gate'
    name: str  # '*': all queues
    key: str  # of a gate, as JSON; empty: the whole gate, or no gate
    paused_at: datetime
    paused_until: datetime | None  # None: until somebody resumes it
    reason: str | None

    @property
    def subject(self) -> str:
        """Name the thing that is paused."""
        return named_so(self.sort, self.name, self.key)

    def __str__(self) -> str:
        """Say it in a sentence without its end: `queue 'mails' is paused since ..., until ...: the provider is down`."""
        until = f", until {_time(self.paused_until)}" if self.paused_until is not None else ""
        return f"{self.subject} is paused since {_time(self.paused_at)}{until}" + (f": {self.reason}" if self.reason else "")


def pause(connection: Connection, target: Target, until: Any = None, reason: str = "") -> datetime:
    """Pause something; where it is paused already, give its pause this end and reason. Return since when it is paused."""
    return answered(connection, pausing(target, until, reason))


def resume(connection: Connection, target: Target) -> bool:
    """Resume something; False if it was not paused. A queue stays paused while everything is, and a key while its gate is."""
    return answered(connection, resuming(target))


def list_pauses(connection: Connection) -> list[PauseRow]:
    """Return all pauses."""
    return answered(connection, all_pauses())


def pausing(target: Target, until: object, reason: object) -> Asking[datetime]:
    """Pause something, as `pause` does."""
    parameters = begin_parameters(target, until, reason)
    [(paused_at, *_)] = yield Ask("pause_begin", parameters, hints=True)
    emit("pause.set", subject=subject_of(target), until=None if until is None else str(until), reason=reason or None)
    since: datetime = paused_at
    return since


def resuming(target: Target) -> Asking[bool]:
    """Resume something, as `resume` does."""
    rows = yield Ask("pause_end", end_parameters(target), hints=True)
    if rows:
        emit("pause.resumed", subject=subject_of(target))
    return bool(rows)


def all_pauses() -> Asking[list[PauseRow]]:
    """List the pauses."""
    return [PauseRow(*row) for row in (yield Ask("pause_list"))]


def begin_parameters(target: Target, until: object, reason: object) -> tuple[object, ...]:
    """Return the parameters of pause_begin.sql but for the channel; OptionError for one that is wrong."""
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON or not (reason.isprintable() or not reason):
        raise OptionError(f"reason {show(reason)}: expected a text of one line, {LONGEST_REASON} characters at most")
    return (*end_parameters(target), quoted(reason) if reason else None, *_end(until))


def end_parameters(target: Target) -> tuple[str, str, str]:
    """Return the parameters of pause_end.sql but for the channel: the key as a string of JSON in ASCII."""
    sort, name, key = parameters_of(target)
    return sort, name, quoted(key)


def parameters_of(target: Target) -> tuple[str, str, str]:
    """Return sort, name and key of a target as the tables have them; OptionError unless it is exactly one thing."""
    given = {name: value for name, value in target.items() if value is not None and (name != "everything" or value is not False)}
    key: Any = given.pop("key", None)
    if len(given) != 1 or (key is not None and "gate" not in given):
        raise OptionError(
            f"expected one of queue=, kind=, gate= (with key=, if it is a key of the gate) and everything=True, "
            f"got {', '.join(f'{name}={value!r}' for name, value in target.items()) or 'none'}"
        )
    [(sort, name)] = given.items()
    if sort == "queue":
        return "queue", check_queue(name), ""
    if sort == "kind":
        return "kind", check_kind_name(name), ""
    if sort == "gate":
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise OptionError(f"gate {show(name)}: expected a name like 'mail-api', of letters, digits and '_.:/-'")
        return "gate", name, "" if key is None else bytes(key_of(_itself, key, "pause")).decode()
    if sort != "everything" or name is not True:
        raise OptionError(f"{sort}={show(name)}: expected one of queue=, kind=, gate= and everything=True")
    return "queue", ALL, ""


def subject_of(target: Target) -> str:
    """Name the thing to pause or to resume."""
    return named_so(*parameters_of(target))


def named_so(sort: str, name: str, key: str) -> str:
    """Name a thing that is paused, for people."""
    if sort == "gate":
        return named(name, msgspec.Raw(key.encode())).removeprefix("the ") if key else f"gate '{name}'"
    return "everything" if name == ALL else f"{sort} '{name}'"


def _itself(key: object) -> object:
    """Stand for the function that makes a key of args: the key is given."""
    return key


def _end(until: object) -> tuple[datetime | None, float | None]:
    """Return the end of a pause as a time, or as seconds from now on by the database's clock."""
    if until is None:
        return None, None
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise OptionError(f"until {until!r}: expected a datetime with a time zone")
        return until, None
    seconds = until.total_seconds() if isinstance(until, timedelta) else until
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_DELAY:
        raise OptionError(
            f"until {show(until)}: expected a datetime with a time zone, a timedelta, or seconds from now, up to {MAX_DELAY:.0f}"
        )
    return None, float(seconds)


def _time(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
