"""Keep the records and the prints of one attempt until they are written: the first and the last ones, and how much is left out.

Written to by the thread or event loop that executes the job, and by threads and tasks that the job has started in its context;
emptied by the thread that writes transcripts (work/scribe.py). A lock is held for moments. It is one that the same thread may
take again, since a finalizer of the user's may print in the middle of anything. `take` copies under the lock; what it has taken
is the taker's own, and sheets are made of it without the lock.

Each log line has a position, which counts the bytes that came before it. Of those that nobody has written yet the first HEAD
bytes of the attempt and the last TAIL are kept, so a job that prints without end costs no more memory than that. A sheet is a
piece with all of its bytes: where the next one does not begin at its end, something is missing, and a reader sees how much.

Invariant: positions only grow, and no byte is in two sheets. It deliberately formats nothing while the job runs, and knows no
database: a log line is a tuple until its sheet is written.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.masked import masked
from fastq.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.jobs.job import Job

HEAD, TAIL, SHEET = 16_384, 40_960, 8_192
"""Bytes: the beginning and the end of an attempt's transcript, and the most in one row. Together 64 kB: the row in which the end
begins is kept whole. People look for the beginning and the end of an attempt; the shares are a guess."""

LONGEST = 4_096
"""Bytes kept of one log line: half from its beginning, half from its end. Two of them fit into a sheet."""

FEW = LONGEST // 4
"""Characters that have LONGEST bytes at most, in any language: such a text need not be measured to be let through."""

LONGEST_NAME = 200
"""Characters kept of the name of a logger. A guess."""

HUGE = 4 * (HEAD + TAIL)
"""Characters that are looked at of one print, half from its beginning and half from its end: no more of it could be kept."""

FRAME = 28
"""Bytes of a log line beside its level, source and text: the time, three tabs and the line end."""

PRINTED = ""
"""The level of a log line that was printed."""


class Told(NamedTuple):
    """One log line: where it begins, how many bytes it takes, when, at which level, from which logger or stream, and its text."""

    start: int
    size: int
    at: float
    level: str
    source: str
    text: str


class Sheet(NamedTuple):
    """A row of `job_log`. Of the same attempt, the sheets that begin at `head` or later and end by `gone` are to be deleted."""

    job: int
    claim: int
    start: int
    attempt: int
    kind: str
    size: int
    lines: int
    ended: bool  # it is the last one of the attempt
    text: str
    head: int
    gone: int


class Transcript:
    """The records and the prints of one attempt. `call` is called when there is something to take, and at the attempt's end."""

    __slots__ = ("_begun", "_call", "_called", "_came", "_head", "_head_end", "_job", "_lock", "_tail", "_waits", "ended")

    def __init__(self, job: Job[Any], call: Callable[[Transcript], None]) -> None:
        self.ended = False
        self._job, self._call = job, call
        self._lock = threading.RLock()  # all that follows is under it
        self._called = False
        self._came = 0  # bytes since the beginning of the attempt
        self._head: list[Told] = []
        self._head_end: int | None = None  # where the first log line begins that is not of the head
        self._tail: deque[Told] = deque()
        self._waits = 0  # bytes in the tail
        self._begun: dict[tuple[str, int], str] = {}  # lines without an end, by stream and thread

    @property
    def weight(self) -> int:
        """Return about how many bytes of memory it takes."""
        return 1_024 + 4 * (self._waits + sum(told.size for told in self._head))

    def log(self, at: float, level: str, source: str, text: str) -> None:
        """Keep a record."""
        with self._lock:
            if not self.ended:
                self._add(at, level, source, text)

    def print(self, source: str, text: str) -> None:
        """Keep the lines of a text that was printed; one without an end is kept when it ends, or the attempt does."""
        with self._lock:
            if self.ended:
                return
            key = (source, threading.get_ident())
            text = self._begun.pop(key, "") + text
            missing = len(text) - HUGE
            if missing > 0:
                rest = text[-HUGE // 2 :]
                self._lines(source, text[: HUGE // 2])
                self._came += missing
                text = rest
            left = self._lines(source, text)
            if len(left) > LONGEST:
                self._add(time.time(), PRINTED, source, left)
            elif left:
                self._begun[key] = left

    def end(self) -> None:
        """Let nothing more in: the attempt has ended."""
        with self._lock:
            for (source, _), text in self._begun.items():
                self._add(time.time(), PRINTED, source, text)
            self._begun.clear()
            self.ended = self._called = True
            self._call(self)

    def take(self) -> list[Sheet]:
        """Return the log lines since the last call, as sheets."""
        with self._lock:
            told = [*self._head, *self._tail]
            self._head, self._waits, self._called = [], 0, False
            self._tail.clear()
            came, ended = self._came, self.ended
            head = came if self._head_end is None else self._head_end
        return list(self._sheets(told, came, head, ended=ended))

    def drop(self) -> int:
        """Forget the log lines since the last `take`; return how many they were."""
        with self._lock:
            count = len(self._head) + len(self._tail)
            self._head.clear()
            self._tail.clear()
            self._waits = 0
        return count

    def _lines(self, source: str, text: str) -> str:
        """Keep the lines that have ended; return the last one, which has not."""
        *lines, left = text.split("\n")
        now = time.time() if lines else 0.0
        for line in lines:
            self._add(
                now, PRINTED, source, line.rstrip("\r").rpartition("\r")[2]
            )  # the last state that a terminal would have shown
        return left if "\r" not in left else left[left.rstrip("\r").rfind("\r") + 1 :]

    def _add(self, at: float, level: str, source: str, text: str) -> None:
        if len(text) > FEW:
            text = shortened(text)
        source = source[:LONGEST_NAME]
        size = FRAME + len(level) + len(source) + text.count("\n")
        size += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        told = Told(self._came, size, at, level, source, text)
        self._came += size
        if self._head_end is None and self._came <= HEAD:
            self._head.append(told)
        else:
            if self._head_end is None:
                self._head_end = told.start
            self._tail.append(told)
            self._waits += size
            while self._waits > TAIL:
                self._waits -= self._tail.popleft().size
        self._call_once()

    def _call_once(self) -> None:
        if not self._called:
            self._called = True  # first: the function that is called may print
            self._call(self)

    def _sheets(self, told: list[Told], came: int, head: int, *, ended: bool) -> Iterator[Sheet]:
        job, gone = self._job, max(came - TAIL, 0)
        row = (job.id, job.batch.claim)
        gaps = {place for place in range(1, len(told)) if told[place].start != told[place - 1].start + told[place - 1].size}
        first = 0
        for place in range(1, len(told) + 1):
            begins = told[first].start
            if place < len(told):
                following = told[place]
                fits = following.start + following.size - begins <= SHEET and (begins >= head) is (following.start >= head)
                if fits and place not in gaps:
                    continue
            lines = told[first:place]
            size = lines[-1].start + lines[-1].size - begins
            text = clean("".join(map(_written, lines)))
            last = ended and place == len(told)
            yield Sheet(*row, begins, job.attempt, job.kind, size, len(lines), last, text, head, gone)
            first = place
        if ended and not told:  # all of it is written, but not that this was all
            yield Sheet(*row, came, job.attempt, job.kind, 0, 0, True, "", head, gone)


def _written(told: Told) -> str:
    r"""Write a log line as it is stored: `TIME\tLEVEL\tSOURCE\tTEXT\n`, further lines of the text behind a tab of their own."""
    clock = datetime.fromtimestamp(told.at, UTC).isoformat(timespec="milliseconds")[:23]
    source = told.source.replace("\t", " ").replace("\n", " ")
    text = "\n\t".join(map(_masked, told.text.split("\n")))
    return f"{clock}Z\t{told.level}\t{source}\t{text}\n"


def _masked(line: str) -> str:
    """Take passwords of databases out; most lines have neither sign of one, and the search takes microseconds."""
    return masked(line) if "@" in line or "assword" in line.lower() else line


def shortened(text: str) -> str:
    """Return as much of a text as is kept of one log line."""
    given = text.encode("utf-8", "replace")
    if len(given) <= LONGEST:
        return text
    half = (LONGEST - 64) // 2  # 64: for the words between
    first, last = given[:half].decode("utf-8", "ignore"), given[-half:].decode("utf-8", "ignore")
    return f"{first}\n... {len(given) - 2 * half} bytes left out ...\n{last}"
