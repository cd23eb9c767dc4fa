"""A statement with its parameters, ready for whatever driver carries it to Postgres.

Made in the enqueuing thread (enqueue/calls.py), read by the adapters and by the clients. Nothing here talks to a
database.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fastq.jobs.spec import UNIT

RECORD = "\x1e"
"""What joins jobs in a statement's parameters; no kind, queue, tag or JSON text has it."""

ARGS, TAGS = 4, 5
"""Where these stand among the values of a Call, of one job or of many."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _escape(found: re.Match[str]) -> str:
    """Write a character as JSON does in ASCII; it stands in a string, for nothing else in JSON is not ASCII."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class Call(NamedTuple):
    """A statement of fastq/sql with its parameters, ready for any driver."""

    statement: str
    values: tuple[object, ...]
    wakes: set[str]

    def parameters(self, channel: str, *, wake: bool) -> tuple[object, ...]:
        """Return the statement's parameters, with the wake-up or without."""
        return (*self.values, wake, channel)

    @property
    def is_ascii(self) -> bool:
        """Tell whether it reads the same in every encoding that a connection may have."""
        return all(not isinstance(value, str) or value.isascii() for value in (self.values[ARGS], self.values[TAGS]))

    def in_ascii(self) -> Call:
        """Return the call with its JSON in ASCII: what is more is written as escapes, which the worker reads as the same text."""
        values = [*self.values]
        values[ARGS] = _BEYOND_ASCII.sub(_escape, str(values[ARGS]))
        return self._replace(values=tuple(values))

    def odd_tag(self) -> str | None:
        """Return the first tag that is not in ASCII."""
        tags = re.split(f"[{RECORD}{UNIT}]", str(self.values[TAGS] or ""))
        return next((tag for tag in tags if not tag.isascii()), None)
