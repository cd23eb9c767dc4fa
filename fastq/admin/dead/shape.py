"""Take the parts out of an error's message that differ from job to job, so that messages of one cause are equal: its shape.

Run by the thread or event loop that groups discarded jobs. Pure functions: the shape of a text depends on that text alone, and
takes a time in proportion to its length.

Invariant: no digit is left in a shape, and other digits in the place of those of a text give the same shape.

It deliberately knows no language and no library: two messages of one cause that differ in their words have two shapes.
"""

from __future__ import annotations

import re

LONGEST = 300
"""Characters of a shape: two lines of a terminal tell causes apart. A guess."""

READ = 1_000
"""Characters of a message that are looked at; the statements read no more of it."""

PARTS = (
    ("url", r"\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"<>]+"),
    ("address", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"),
    ("id", r"(?<!\w)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w)"),
    ("address", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]*\w)"),
    ("text", r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`"),
    ("path", r"(?<![\w/\\<])(?:~|\.{1,2}|[a-z]:)?(?:[/\\][\w.@+%=-]+)+[/\\]?"),
    ("hex", r"\b\dx[0-9a-f]+\b|(?<!\w)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}(?!\w)"),
    ("n", r"\d+(?:[.,:]\d+)*"),
)
"""The parts that are taken out, the first that fits at a place; each is written as its name in pointed brackets."""

_PART = re.compile("|".join(f"(?P<p{number}>{pattern})" for number, (_, pattern) in enumerate(PARTS)), re.IGNORECASE)
_CLASS = re.compile(r"([\w.<>]*?[A-Z]\w*):(?=\s|$)")


def shape(text: str) -> str:
    """Return the first line of a message without its numbers, ids, quoted texts, addresses and paths."""
    line = next((line for line in text[:READ].split("\n") if line.strip()), "")
    taken = " ".join(_PART.sub(_name_of, line).split())
    return taken if len(taken) <= LONGEST else f"{taken[: LONGEST - 3]}..."


def error_class(text: str) -> str | None:
    """Return the class of the error that a message begins with, as `ValueError: ...`; None if it begins with none."""
    found = _CLASS.match(text)
    return found[1] if found else None


def _name_of(found: re.Match[str]) -> str:
    return f"<{PARTS[int((found.lastgroup or 'p0')[1:])][0]}>"
