"""Say how a setting is declared: its default, the values that are allowed, its help and the reason of its default.

The declarations are made while the groups of settings beside it are imported; config.py reads, checks and joins them. A reader is
a function from text to a value (it raises one of UNREADABLE) with the rule for messages; it runs later, in the thread that makes
a `Config` or parses a command line. Plain data that never changes, read by every thread. It deliberately reads no environment:
config.py does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

from fastq.args.options import QUEUE
from fastq.errors import ConfigError
from fastq.jobs.retention import FORMAT, Retention

T = TypeVar("T")
Reader = tuple[Callable[[str], T], str]

UNREADABLE = (ValueError, KeyError, OverflowError)
"""The errors of a reader."""

SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
"""Postgres cuts names at 63 bytes; the longest that we append (an archive partition's) needs 15 of them."""

SCHEMA_RULE = "1 to 48 of a-z, 0-9 and '_', not starting with a digit"


def seconds(low: float, high: float = 86_400.0) -> Reader[float]:
    """Read seconds from `low` to `high`."""

    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse, f"seconds, {low:g} to {high:g}"


def number(low: float, high: float) -> Reader[float]:
    """Read a number from `low` to `high`."""
    return seconds(low, high)[0], f"a number, {low:g} to {high:g}"


def whole(low: int, high: int) -> Reader[int]:
    """Read a whole number from `low` to `high`."""

    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse, f"a whole number, {low} to {high}"


SWITCHED = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""The words for a setting that is on or off."""


def flag() -> Reader[bool]:
    """Read a setting that is on or off."""
    return lambda text: SWITCHED[text.strip().lower()], "1/true/yes/on or 0/false/no/off"


def word(*words: str) -> Reader[str]:
    """Read one of a few words."""
    return lambda text: words[words.index(text.strip().lower())], " or ".join(words)


def retention_rules() -> Reader[str]:
    """Read days by state and queue, and keep the text."""

    def parse(text: str) -> str:
        try:
            Retention.parse(text)  # the chores read it again
        except ConfigError as error:
            raise ValueError from error
        return text

    return parse, FORMAT


def named(pattern: re.Pattern[str], rule: str, none: str = "") -> Reader[str]:
    """Read a name by a pattern; `none` says, in the rule, that it may be empty."""

    def parse(text: str) -> str:
        if not pattern.fullmatch(text) and (text or not none):
            raise ValueError
        return text

    return parse, f"a name of {rule}{none}"


def any_text() -> Reader[str]:
    """Take any text."""
    return lambda text: text, "text"


def parse_queues(text: str) -> dict[str, int]:
    """Read `default=16,emails=4` (or `default`, with the default concurrency) into concurrency by queue."""
    queues: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, count = part.partition("=")
        concurrency = int(count) if equals else 0
        if not QUEUE.fullmatch(name) or not 0 <= concurrency <= MAX_CONCURRENCY or (equals and not concurrency):
            raise ValueError
        queues[name] = concurrency
    if not queues:
        raise ValueError
    return queues


ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
MAX_PORT = 65_535


def parse_address(text: str) -> tuple[str, int]:
    """Read `127.0.0.1:9464` or `[::1]:9464`."""
    found = ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > MAX_PORT:
        raise ValueError
    return found["host"].strip("[]"), int(found["port"])


def address() -> Reader[str]:
    """Read the address of a port, or nothing."""

    def parse(text: str) -> str:
        if text:
            parse_address(text)
        return text

    return parse, "HOST:PORT, such as 127.0.0.1:9464, or 0.0.0.0:9464 in a container; empty: none"


MAX_CONCURRENCY = 1_000
"""Executor threads of one queue in one process: each costs a stack and a slot in shared memory; more belongs in processes."""


def queue_list() -> Reader[dict[str, int]]:
    """Read queues with their concurrency."""
    return parse_queues, f"NAME or NAME=CONCURRENCY, comma-separated, concurrency 1 to {MAX_CONCURRENCY}"


def setting(default: object, reader: Reader[Any], help: str, why: str, *, secret: bool = False) -> Any:  # noqa: A002 - it is the help
    """Declare a setting: its default, how it is read, its line of help and the reason of its default.

    The value of a secret one is in no message, and it is no flag.
    """
    parse, allowed = reader
    metadata = {"parse": parse, "allowed": allowed, "help": help, "why": why, "secret": secret}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)
