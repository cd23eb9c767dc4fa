"""Take down how far a job is: `job.progress(0.4, "read 4 of 10 files")`, and hand it to whoever writes it.

Called in the thread or on the event loop that executes the job, so it takes microseconds and never waits. A worker process says
at its start who takes the notes (`use`, called by its main thread before any other thread runs): work/notes.py, which writes
them. Where nobody does, in a test of a worker, say, a note is checked and forgotten.

Invariant: a note changes nothing of its job. It deliberately fails no job for a number that is a little too large: a total that
has grown meanwhile is no reason to run a job once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from fastq.texts import clean

MAX_TEXT = 500
"""Characters of a note's text: a line for a person. A guess."""


class Note(NamedTuple):
    """How far a job is: a fraction from 0 to 1, and what it is at."""

    attempt: int
    fraction: float
    text: str


Take = Callable[[int, Note], None]
"""A function that takes a job's id and the newest note of it; it may not wait."""

_take: Take | None = None  # written by `use`


def use(take: Take | None) -> None:
    """Say who takes the notes of this process."""
    global _take  # noqa: PLW0603 - one taker per process, like the reader of the jobs before a step
    _take = take


def note(job_id: int, attempt: int, fraction: float, text: str) -> None:
    """Take a note; TypeError if the fraction is no number, or the text is none."""
    if isinstance(fraction, bool) or not hasattr(fraction, "__float__"):
        raise TypeError(f"progress({fraction!r}): expected a number from 0 to 1")
    if not isinstance(text, str):
        raise TypeError(f"progress({fraction!r}, {text!r}): expected a text")
    number = float(fraction)
    number = 0.0 if math.isnan(number) else min(1.0, max(0.0, number))
    if _take is not None:
        _take(job_id, Note(attempt, number, clean(text[:MAX_TEXT])))
