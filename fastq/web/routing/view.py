"""Declare pages and actions: an address, the permission that it needs, and functions that read or change the database.

Plain data that the modules of pages make at import. The functions get a `Visit` and run in a thread of the `Source`, over a
connection that is theirs for the call. The result of a `load` is shared by all viewers (live/sharing.py), so it looks at no
viewer: the template asks for permissions.

Invariant: there is no view and no action without a permission that exists (security/permissions.py); to make one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastq.enqueue.settings import MAX_ID
from fastq.errors import FastqError, OptionError
from fastq.web.security.permissions import PERMISSIONS

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.enqueue.client import Client
    from fastq.postgres.db import Connection
    from fastq.web.security.redacting import Redaction

INSIDE = re.compile(r"/(?![/\\])[^\\\s\x00-\x1f]*")
"""An address below the dashboard, and no other site's: neither `//host` nor anything with a backslash."""


class Missing(FastqError):
    """There is no such thing to show."""


class Elsewhere(Exception):
    """The page that is asked for has another address, below the dashboard."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True)
class Visit:
    """One call of a page's function: the connection, the parts of the address, and the values of the form."""

    connection: Connection
    config: Config
    redaction: Redaction
    client: Callable[[], Client]
    path: Mapping[str, Any] = field(default_factory=dict)
    query: tuple[tuple[str, str], ...] = ()
    form: Mapping[str, str] = field(default_factory=dict)
    by: str = ""  # of an action: the viewer, as the audit names him

    def all(self, name: str) -> list[str]:
        """Return the values of a parameter; OptionError for one that no text of the database can be."""
        values = [value for key, value in self.query if key == name and value]
        if any("\0" in value for value in values):
            raise OptionError(f"{name}: expected a text without a NUL")
        return values

    def get(self, name: str) -> str | None:
        """Return the first value of a parameter; None if there is none, or an empty one."""
        return next(iter(self.all(name)), None)

    def need(self, name: str) -> str:
        """Return the value of a parameter without which the address means nothing."""
        value = self.get(name)
        if value is None:
            raise OptionError(f"address: expected the parameter '{name}'")
        return value

    def number(self, name: str) -> int | None:
        """Return the number of a parameter, one that an id can be."""
        value = self.get(name)
        if value is None:
            return None
        number = whole(name, value)
        if not 0 < number <= MAX_ID:
            raise OptionError(f"{name}: expected a number from 1 to {MAX_ID}, got {value[:40]}")
        return number

    @property
    def id(self) -> int:
        """Return the id in the address; Missing if nothing can have it."""
        number = int(self.path["id"])
        if not 0 < number <= MAX_ID:
            raise Missing(f"nothing has the id {number}")
        return number


@dataclass(frozen=True)
class View:
    """A page: `load` reads its contents, and `template` shows them. With `every` (seconds) it is live, and read so often."""

    path: str
    title: str
    needs: str
    template: str
    load: Callable[[Visit], Mapping[str, Any]]
    every: float | None = None
    menu: bool = False

    def __post_init__(self) -> None:
        """Refuse a permission that there is not."""
        check(self.path, self.needs)


@dataclass(frozen=True)
class Field:
    """A field of an action's form; with `choices` a list to choose from: value and words."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    number: bool = False
    required: bool = False
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Asked:
    """The question before an action: what it will do, to what, and the fields to fill in."""

    question: str
    subject: str
    back: str
    facts: tuple[tuple[str, str], ...] = ()
    explained: str = ""
    fields: tuple[Field, ...] = ()
    refused: str = ""  # why it cannot be done now; then there is no button


@dataclass(frozen=True)
class Done:
    """The result of an action, in a sentence."""

    told: str
    ok: bool = True
    back: str = ""


@dataclass(frozen=True)
class Action:
    """Something that can be done: a page that asks, and a form of it that does it."""

    path: str
    verb: str  # on the button
    needs: str
    ask: Callable[[Visit], Asked]
    do: Callable[[Visit], Done]
    severe: bool = False  # it cannot be taken back
    also: tuple[str, ...] = ()  # permissions that it needs besides

    def __post_init__(self) -> None:
        """Refuse a permission that there is not."""
        for one in (self.needs, *self.also):
            check(self.path, one)


def check(path: str, needs: str) -> None:
    """Refuse a permission that there is not."""
    if needs not in PERMISSIONS:
        raise OptionError(f"page {path}: expected one of the permissions in security/permissions.py, got {needs!r}")


def whole(name: str, text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}: expected a whole number, got {text[:40]!r}") from None


def decimal(name: str, text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name}: expected a number, got {text[:40]!r}") from None


def inside(path: str | None) -> str | None:
    """Return an address that somebody has given if it is one below the dashboard."""
    return path if path is not None and INSIDE.fullmatch(path) else None
