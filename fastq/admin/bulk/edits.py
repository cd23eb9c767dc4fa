"""Say what is to be changed of jobs: an `Edit`, checked, as JSON to be kept and as the parameters of bulk_edit.sql.

Plain values and pure functions, in the thread or event loop that asks for a change, and in that of the leader's chore. It
deliberately knows no worker: args are checked by their kind where that is given, and else are any JSON object.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

import msgspec

from fastq.args.faults import show
from fastq.args.kinds import Args, Kind, kind_of
from fastq.args.options import check_max_attempts, check_priority, check_queue
from fastq.args.text import ArgsCodec
from fastq.errors import OptionError
from fastq.texts import in_ascii


class Changes(TypedDict, total=False):
    """The new values of a job; those that are not given stay.

    `args`: an object of an `Args` class, or a dict. `at`: a time with a zone; one that is over makes the job available now.
    """

    queue: str
    priority: int
    max_attempts: int
    at: datetime
    args: Args | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Edit:
    """New values, checked; as JSON they are kept with an operation and in the audit."""

    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    args: str | None = None  # JSON
    at: str | None = None  # ISO 8601, with a zone
    kind: str | None = None  # that the args are of

    @classmethod
    def of(cls, changes: Any, *, many: bool) -> Edit:
        """Check new values; OptionError with the rule for what nobody can have meant."""
        unknown = changes.keys() - Changes.__annotations__.keys()
        if unknown:
            raise OptionError(
                f"unknown option {', '.join(sorted(unknown))}; expected one of {', '.join(Changes.__annotations__)}"
            )
        if not changes:
            raise OptionError(f"expected a change, got none: one of {', '.join(Changes.__annotations__)}")
        if many and "args" in changes:
            raise OptionError("args: expected them for a single job, got a filter: edit the jobs one by one")
        get = changes.get
        args, kind = _args(get("args")) if "args" in changes else (None, None)
        return cls(
            None if get("queue") is None else check_queue(get("queue")),
            None if get("priority") is None else check_priority(get("priority")),
            None if get("max_attempts") is None else check_max_attempts(get("max_attempts")),
            args,
            None if get("at") is None else _at(get("at")),
            kind,
        )

    @classmethod
    def read(cls, text: str) -> Edit:
        """Read the JSON."""
        return cls(**msgspec.json.decode(text))

    def json(self) -> str:
        """Write those values that are given."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__ if getattr(self, name) is not None}
        return in_ascii(msgspec.json.encode(given).decode())

    @property
    def parameters(self) -> tuple[object, ...]:
        """Return the parameters of bulk_edit.sql."""
        return (self.queue, self.priority, self.max_attempts, self.args, self.at, self.kind)


def _args(value: object) -> tuple[str, str | None]:
    """Write args as JSON: by their kind, which checks them, or as they are."""
    if isinstance(value, Args):
        kind: Kind[Any] = kind_of(value)
        return in_ascii(kind.codec.encode(value).decode()), kind.name
    if not isinstance(value, dict):
        raise OptionError(f"args {show(value)}: expected an object of an Args class, or a dict")
    return in_ascii(ArgsCodec("args", dict).encode(value).decode()), None


def _at(value: object) -> str:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise OptionError(f"at {show(value)}: expected a time with a zone, such as datetime.now(UTC) + {timedelta(hours=1)!r}")
    return value.isoformat()
