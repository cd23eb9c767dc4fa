"""Read the arguments of a command, and report mistakes in them: in one line, in our words, with the place of the help.

Used by every command, by those that have subcommands for each of them, and by `fastq bench`; runs in the main thread of the
command, which makes a parser for itself. The functions are pure.

It deliberately completes no flag that was cut short: another flag that begins like it may be added later.
"""

from __future__ import annotations

import argparse
import re
from argparse import BooleanOptionalAction
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from fastq.cli.terminal.output import note
from fastq.settings.declaring import SWITCHED

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = 2
"""The exit code for arguments that are wrong: argparse's own, and that of most programs."""


WITHOUT = re.compile(r"-[a-z][a-z.-]*:")
"""A word of a filter that leaves jobs out, `-queue:slow`. argparse takes it for a flag, unless a blank stands before it."""

SPAN = re.compile(r"(?P<number>\d{1,9}(\.\d{1,9})?)(?P<unit>[smhd]?)", re.ASCII)
SPANS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
"""Seconds by the unit of a span of time."""


class Parser(argparse.ArgumentParser):
    """Put the mistake first in an error, and name the actions where one is missing."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)
        self._named: Any = None  # its actions, if it has some

    def add_subparsers(self, **options: Any) -> Any:
        """Add the actions, and keep them at hand for `error`."""
        self._named = super().add_subparsers(**options)
        return self._named

    def error(self, message: str) -> NoReturn:
        """Leave with the code for usage."""
        if self._named is not None and message.endswith(f" required: {self._named.metavar}"):
            message += f", one of {', '.join(self._named.choices)}"
        note(f"{self.prog}: {message}; see {self.prog} --help")
        raise SystemExit(USAGE)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - the stub's overloads
        """Refuse an unknown flag of an action in the action's own parser: its help lists the flags that there are."""
        options, unknown = super().parse_known_args(self._spelt_out(args), namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def _spelt_out(self, words: Sequence[str] | None) -> Sequence[str] | None:
        """Write `--archive off` and `--archive=off` as `--no-archive`, which argparse knows; `on` likewise, and their likes.

        Put a blank before words of a filter that begin with '-', so that they are taken for no flags.
        """
        switches = {
            flag for action in self._actions if isinstance(action, BooleanOptionalAction) for flag in action.option_strings
        }
        left, spelt = list(words or ()), []
        while left:
            word = left.pop(0)
            word = f" {word}" if WITHOUT.match(word) else word
            flag, equals, value = word.partition("=")
            if flag in switches and not flag.startswith("--no-"):
                value = value if equals else left[0] if left else ""
                if value.lower() in SWITCHED:
                    left = left if equals else left[1:]
                    word = flag if SWITCHED[value.lower()] else flag.replace("--", "--no-", 1)
            spelt.append(word)
            if word == "--":
                return [*spelt, *left]
        return words if words is None else spelt


def whole(text: str) -> int:
    """Read a whole number; the function that takes it checks whether it is allowed."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def seconds(text: str) -> float:
    """Read seconds; the function that takes them checks whether they are allowed."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected seconds, got {text!r}") from None


def until(text: str) -> float | datetime:
    """Read a moment: seconds, minutes, hours or days from now, such as `30m`, or a time with a zone."""
    found = SPAN.fullmatch(text)
    if found:
        return float(found["number"]) * SPANS[found["unit"]]
    with suppress(ValueError):
        when = datetime.fromisoformat(text)
        if when.tzinfo is not None:
            return when
    raise argparse.ArgumentTypeError(f"expected 90s, 30m, 2h, 1d or a time with a zone like 2026-12-24T18:00+01:00, got {text!r}")
