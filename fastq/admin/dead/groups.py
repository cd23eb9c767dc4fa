"""Put discarded jobs into groups: by kind, cause and the shape of their message (shape.py).

Run by the thread or event loop that asks, on the rows that dead_list.sql and dead_after.sql read. A `Groups` belongs to the call
that makes it; all else are values. The id of a group is a digest, so the same jobs have the same id on each host and each day.

It deliberately keeps no jobs: of each group it has a sample and the ids of the newest.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from fastq.admin.dead.shape import error_class, shape
from fastq.args.faults import show
from fastq.args.options import MAX_DELAY, check_kind_name, check_queue
from fastq.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

IDS = 100
"""Ids that are kept of a group, the newest: a person looks at a few. A guess."""

ID_BYTES = 5
"""Bytes of a group's id: of a thousand groups, two have the same one once in two million times."""

MESSAGES = 10_000
"""Messages of which the shapes are remembered: equal ones come in thousands."""


SLOWEST, FASTEST = 1e-6, 1e6
"""Jobs in a second that a replay may ask for: one in eleven days; one in a microsecond, as times are stored."""


class Which(TypedDict, total=False):
    """The discarded jobs that are meant: those of a kind, a queue and a cause, and not older than `since`.

    `cause`: "failed", "crashed", "lost", or the class of an error. `since`: a time with a zone, a timedelta, or seconds.
    """

    kind: str | None
    queue: str | None
    cause: str | None
    since: datetime | timedelta | float | None


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Discarded jobs that have ended for the same reason, as far as their messages tell."""

    id: str
    kind: str
    cause: str
    """'failed' (the last attempt failed), 'crashed' (the process died) or 'lost' (the process showed no life any more)."""
    error: str | None
    """The class of the error, where the message begins with one."""
    shape: str
    jobs: int
    replayed: int
    """How many of them have a job that replays them."""
    first: datetime
    last: datetime
    sample: int
    """The newest of the jobs, and its message."""
    message: str
    ids: list[int]
    """The newest of the jobs, 100 at most."""


@dataclass(frozen=True, slots=True)
class DeadList:
    """Groups, those with most jobs first."""

    groups: list[DeadGroup]
    more: int
    """How many groups there are besides."""
    older: dict[str, int]
    """By kind: how many discarded jobs retention has removed."""
    searched_to: datetime | None
    """Where the search ended for lack of time: older jobs may fit, too. None: all were looked at."""


@dataclass(slots=True)
class Replayed:
    """The result of a replay; of a dry run, what a replay would do."""

    jobs: int = 0
    """How many new jobs there are."""
    done: int = 0
    """How many have been replayed before, and were not once more."""
    steps: int = 0
    """How many are steps of workflows: `client.retry_workflow` runs these."""
    in_order: int = 0
    """How many hold their key in order: `client.retry` runs these, before the jobs behind them."""
    held: int = 0
    """How many are unique, and another job holds their key."""
    missing: int = 0
    """How many were gone when their turn came: somebody has retried or deleted them."""
    holders: dict[int, int | None] = field(default_factory=dict)
    """Of those whose key is held, 100 at most: the job, and the one that holds its key."""

    @property
    def skipped(self) -> int:
        """Return how many jobs were not replayed."""
        return self.done + self.steps + self.in_order + self.held + self.missing


class Dead(NamedTuple):
    """A row of dead_list.sql or dead_after.sql."""

    at: datetime
    id: int
    kind: str
    queue: str
    cause: str
    message: str | None
    replayed_by: int | None
    step: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """The jobs that are meant, checked."""

    group: str | None
    kind: str | None
    queue: str | None
    cause: str | None

    @classmethod
    def of(cls, group: object, which: Which) -> Filter:
        """Check what is asked for; OptionError with the rule for what nobody can have meant."""
        unknown = which.keys() - Which.__annotations__.keys()
        if unknown:
            raise OptionError(f"unknown option {', '.join(sorted(unknown))}; expected one of {', '.join(Which.__annotations__)}")
        kind, queue, cause = which.get("kind"), which.get("queue"), which.get("cause")
        for name, value in (("group", group), ("cause", cause)):
            if value is not None and (not isinstance(value, str) or not value):
                raise OptionError(f"{name} {show(value)}: expected a text, as fastq dead shows it")
        return cls(
            str(group) if group is not None else None,
            check_kind_name(kind) if kind is not None else None,
            check_queue(queue) if queue is not None else None,
            str(cause) if cause is not None else None,
        )

    def fits(self, dead: Dead) -> bool:
        """Tell whether a job is meant; the statements have left out the messages of other kinds and queues."""
        if dead.message is None or self.cause not in (None, dead.cause, error_class(dead.message)):
            return False
        return self.group is None or self.group == group_of(dead.kind, dead.cause, dead.message)


class Groups:
    """The groups that come of rows, the newest of which come first."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, dead: Dead) -> None:
        """Count a job in its group."""
        message = dead.message or ""
        name = group_of(dead.kind, dead.cause, message)
        group = self._found.get(name)
        if group is None:
            told = {"id": name, "kind": dead.kind, "cause": dead.cause, "error": error_class(message), "shape": _shape(message)}
            newest = {"last": dead.at, "sample": dead.id, "message": message}
            group = self._found[name] = {**told, **newest, "jobs": 0, "replayed": 0, "ids": []}
        group["jobs"] += 1
        group["replayed"] += dead.replayed_by is not None
        group["first"] = dead.at
        if len(group["ids"]) < IDS:
            group["ids"].append(dead.id)

    def told(self, limit: int, older: Mapping[str, int], searched_to: datetime | None) -> DeadList:
        """Return the largest groups."""
        every = sorted(self._found.values(), key=lambda group: (-group["jobs"], group["id"]))
        found = [DeadGroup(**group) for group in every[:limit]]
        return DeadList(found, len(every) - len(found), dict(older), searched_to)


@functools.lru_cache(MESSAGES)
def group_of(kind: str, cause: str, message: str) -> str:
    """Return the id of the group that a job belongs to."""
    parts = "\x1e".join((kind, cause, _shape(message)))
    return hashlib.blake2b(parts.encode(errors="surrogatepass"), digest_size=ID_BYTES).hexdigest()


def since_of(since: object) -> tuple[float | None, datetime | None]:
    """Return how many seconds ago, or the time, that a search ends at; OptionError for what is neither."""
    if isinstance(since, datetime):
        if since.utcoffset() is None:
            raise OptionError(f"since {since!r}: expected a time with a zone, such as datetime.now(UTC) - timedelta(hours=2)")
        return None, since
    seconds = since.total_seconds() if isinstance(since, timedelta) else since
    if seconds is None:
        return None, None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= MAX_DELAY:
        raise OptionError(f"since {show(since)}: expected a time with a zone, a timedelta, or seconds from 0 to {MAX_DELAY:.0f}")
    return float(seconds), None


def check_rate(rate: object) -> float:
    """Return the seconds between two jobs at a rate; 0 without one."""
    if rate is None:
        return 0.0
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not SLOWEST <= rate <= FASTEST:
        raise OptionError(f"rate {show(rate)}: expected jobs in a second, from {SLOWEST:g} to {FASTEST:.0f}")
    return 1.0 / rate


@functools.lru_cache(MESSAGES)
def _shape(message: str) -> str:
    return shape(message)
