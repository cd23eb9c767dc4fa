"""Hold the rules and defaults of the options of a job: its kind, queue, priority, attempts, tags, and its spans of time.

Constants and pure checks, for any thread that declares a kind, enqueues a job, or pauses a queue or kind. A check returns the
value that it was given, or raises OptionError with the rule. It deliberately knows nothing of
the times when a job is due: those are jobs/spec.py's.
"""

import re
from datetime import timedelta
from typing import Literal, get_args

from fastq.errors import OptionError

DEFAULT_QUEUE = "default"
QUEUE = re.compile(r"[a-z0-9_][a-z0-9_.\-]{0,62}")  # no sign that settings, notifications and parameters have between queues
QUEUE_RULE = "1 to 63 of a-z, 0-9, '_', '.' and '-', not starting with '.' or '-'"
DEFAULT_PRIORITY = 1  # first of four: a less urgent job says so itself
DEFAULT_MAX_ATTEMPTS = 25  # with attempt**4 s between them: about three weeks


Tags = list[str] | tuple[str, ...] | set[str] | frozenset[str]
"""The types that tags may have. A string is a sequence of strings, too, and never meant."""

Span = float | timedelta
"""Seconds, or a timedelta."""

Counting = Literal["since_progress"]
"""From where attempts are counted, if not from the job's first one on."""

KIND_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:\-]{0,126}")  # stands in every log line and row; no shell or URL mangles it
PRIORITIES = range(1, 5)  # 1 is first; four, because a claim looks once per priority
MAX_ATTEMPTS = range(1, 32_768)  # a smallint in the database
MAX_TAGS = 32  # guess: a row stays narrow
MAX_TAG_LENGTH = 255  # guess: room for a URL
MAX_DELAY = 100 * 365 * 86_400.0  # seconds: a guess that catches milliseconds and timestamps given for seconds


def check_kind_name(name: object) -> str:
    """Return the name, or raise OptionError with the rule."""
    if not isinstance(name, str) or not KIND_NAME.fullmatch(name):
        raise OptionError(
            f"kind {name!r}: expected a letter or underscore and then up to 126 letters, digits, '_', '.', ':' or '-'"
        )
    return name


def check_aliases(aliases: object, name: str) -> tuple[str, ...]:
    """Return the former names of a kind as a tuple, or raise OptionError with the rule."""
    if not isinstance(aliases, list | tuple):
        raise OptionError(
            f"aliases {_shown(aliases)}: expected a list of the former names of kind '{name}', such as aliases=['mail.old']"
        )
    checked = tuple(map(check_kind_name, aliases))
    twice = next((alias for place, alias in enumerate(checked) if alias in (name, *checked[:place])), None)
    if twice is not None:
        raise OptionError(f"aliases of kind '{name}': expected other names, each once, got {twice!r} again")
    return checked


def check_queue(queue: object) -> str:
    """Return the queue's name, or raise OptionError with the rule."""
    if not isinstance(queue, str) or not QUEUE.fullmatch(queue):
        raise OptionError(f"queue {queue!r}: expected {QUEUE_RULE}")
    return str(queue)  # of a declared one (queues.py) the name alone, as drivers write it


def check_priority(priority: object) -> int:
    """Return the priority, or raise OptionError with the rule."""
    if type(priority) is not int or priority not in PRIORITIES:
        raise OptionError(f"priority {priority!r}: expected a whole number from 1 (first) to 4 (last)")
    return priority


def check_max_attempts(max_attempts: object) -> int:
    """Return the number, or raise OptionError with the rule."""
    if type(max_attempts) is not int or max_attempts not in MAX_ATTEMPTS:
        raise OptionError(f"max_attempts {max_attempts!r}: expected a whole number from 1 to {MAX_ATTEMPTS[-1]}")
    return max_attempts


def check_attempts(attempts: object) -> str:
    """Return the word that says from where attempts are counted, or raise OptionError with the rule."""
    [word] = get_args(Counting)
    if attempts != word:
        raise OptionError(
            f"attempts {_shown(attempts)}: expected '{word}', to count them from the last progress on; max_attempts says how many"
        )
    return str(word)


def check_tags(tags: object) -> tuple[str, ...]:
    """Return the tags as a tuple, or raise OptionError with the rule."""
    if not isinstance(tags, list | tuple | set | frozenset):
        raise OptionError(f"tags {tags!r}: expected a list of strings, such as tags=['red']")
    if len(tags) > MAX_TAGS:
        raise OptionError(f"tags: expected {MAX_TAGS} at most, got {len(tags)}")
    return tuple(_check_tag(tag) for tag in tags)


def _check_tag(tag: object) -> str:
    if not isinstance(tag, str) or not tag.isprintable() or "," in tag or not 0 < len(tag) <= MAX_TAG_LENGTH:
        raise OptionError(
            f"tag {tag!r}: expected 1 to {MAX_TAG_LENGTH} printable characters without a comma or control character"
        )
    return tag


def check_span(name: str, value: object, *, or_time: bool = False) -> float:
    """Return a span in seconds, or raise OptionError with the rule."""
    seconds: object = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= MAX_DELAY:
        expected = "a timedelta, or a datetime with a time zone" if or_time else "or a timedelta"
        raise OptionError(f"{name} {_shown(value)}: expected seconds above 0 and up to {MAX_DELAY:.0f}, {expected}")
    return float(seconds)


def check_either(max_attempts: object, keep_trying_for: object) -> None:
    """Refuse a number of attempts beside a time for attempts."""
    if max_attempts is not None and keep_trying_for is not None:
        raise OptionError(
            f"expected max_attempts or keep_trying_for, got both: max_attempts={max_attempts!r}, "
            f"keep_trying_for={keep_trying_for!r}; a job that is tried for a time has as many attempts as that takes"
        )


def _shown(value: object) -> str:
    """Write a value for a message."""
    from fastq.args.faults import show  # noqa: PLC0415 - it brings msgspec, and the settings need these rules and no JSON

    return show(value)
