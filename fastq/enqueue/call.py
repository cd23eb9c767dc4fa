"""A statement with its parameters, ready for any driver that carries it to Postgres.

Made in the enqueuing thread (calls.py) and read by the clients. Nothing here talks to a database.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fastq.errors import OptionError
from fastq.jobs.spec import UNIT

RECORD = "\x1e"
"""The character that joins jobs in a statement's parameters; no kind, queue, tag or JSON text has it."""

ARGS, TAGS = 4, 5
"""Where these stand among the values of a Call, of one job or of many."""

UTF8 = "UTF8"
"""The encoding in which every character arrives as it is, by its name in Postgres."""

_ONE_BYTE = ("SQLASCII", "LATIN", "ISO8859", "WIN", "KOI8")
"""The encodings, by the beginnings of their names, in which Python and Postgres agree; drivers refuse other characters."""

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

    @property
    def is_ascii(self) -> bool:
        """Tell whether it reads the same in every encoding that a connection may have."""
        return all(not isinstance(value, str) or value.isascii() for value in (self.values[ARGS], self.values[TAGS]))

    def in_encoding(self, encoding: str) -> Call:
        """Return the call as a connection of this encoding can carry it; raise OptionError if it cannot carry the tags.

        Drivers write text in the connection's encoding by Python's codecs, and the server reads it by tables of its own. In the
        encodings of East Asia the two differ: a yen sign arrives as a backslash, and the JSON says something else. ASCII is the
        same in all.
        """
        name = re.sub(r"[^A-Z0-9]", "", encoding.upper())
        if name == UTF8:
            return self
        tag = self._odd_tag()
        if tag is not None and not name.startswith(_ONE_BYTE):
            raise OptionError(
                f"tag {tag!r}: expected ASCII, since your connection's client_encoding is {encoding}, in which other characters "
                f"may arrive as something else; set it to {UTF8}"
            )
        return self._in_ascii()

    def _in_ascii(self) -> Call:
        """Return the call with its JSON in ASCII: other characters become escapes, which the worker reads as the same text."""
        values = [*self.values]
        values[ARGS] = _BEYOND_ASCII.sub(_escape, str(values[ARGS]))
        return self._replace(values=tuple(values))

    def _odd_tag(self) -> str | None:
        """Return the first tag that is not in ASCII."""
        tags = re.split(f"[{RECORD}{UNIT}]", str(self.values[TAGS] or ""))
        return next((tag for tag in tags if not tag.isascii()), None)
