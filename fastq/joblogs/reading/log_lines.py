"""Read the sheets of a job's log as log lines, and find out how much is missing between them.

Plain values and text, no I/O: run in the thread or event loop that asks a client for the log of a job. A `Reading` keeps, for
each claim of the job, where the last sheet that it has read ends. With that it asks for the next ones (log_read.sql), and sees
where bytes were left out. It belongs to the call of `logs` or `follow_logs` that makes it, and its own methods alone write it.

Invariant: the log lines of one attempt come in their order, and each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class LogLine:
    """A record that a job has logged, or a line that it has printed; `str(line)` shows all of it.

    `level` is that of a record, '' of a line that was printed; `source` is the name of the logger, or 'stdout' or 'stderr'. `at`
    is the time of the worker's host. Where `left_out` is above 0, so many bytes are missing here, as `text` says.
    """

    attempt: int
    at: datetime
    level: str
    source: str
    text: str
    left_out: int = 0

    def __str__(self) -> str:
        """Write `TIME level source: text`."""
        if self.left_out:
            return f"... {self.text} ..."
        source = f"{self.level:7s} {self.source}" if self.level else f"{self.source:7s}"
        return f"{self.at:%Y-%m-%d %H:%M:%S}.{self.at.microsecond // 1000:03d} {source}: {self.text}"


@dataclass(frozen=True, slots=True)
class LogSize:
    """The newest logs of the jobs of one kind: how many attempts, lines and bytes, and since when.

    `disk` is the size of all job logs together, with their indexes. `more` says that there are older ones, which do not count.
    """

    kind: str
    attempts: int
    lines: int
    bytes: int
    since: datetime
    disk: int
    more: bool


class Reading:
    """How far the log of a job was read."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}  # bytes, by claim
        self._ended: dict[int, bool] = {}  # whether nothing comes after that; the same
        self._attempts: dict[int, int] = {}  # the same

    def seen(self) -> tuple[list[int], list[int]]:
        """Return the claims of which sheets were read, and where the next ones begin; behind an end there is none."""
        return list(self._ends), [end + self._ended[claim] for claim, end in self._ends.items()]

    def has_ended(self, attempt: int) -> bool:
        """Tell whether all of an attempt was read."""
        last = [claim for claim, number in self._attempts.items() if number == attempt]
        return bool(last) and all(self._ended[claim] for claim in last)

    def lines(self, rows: Sequence[Sequence[Any]]) -> Iterator[LogLine]:
        """Yield the log lines of rows of log_read.sql."""
        for claim, attempt, start, size, ended, text in rows:
            lines = _read(attempt, text)
            before = self._ends.get(claim, 0)
            if start > before and lines:
                yield LogLine(attempt, lines[0].at, "", "", f"{start - before:,} bytes left out", start - before)
            self._ends[claim], self._ended[claim], self._attempts[claim] = start + size, ended, attempt
            yield from lines


def _read(attempt: int, text: str) -> list[LogLine]:
    """Read the text of a sheet."""
    lines: list[LogLine] = []
    for written in text.replace("\n\t", "\0").split("\n"):  # a text that Postgres has stored has no NUL
        if written:
            at, level, source, told = written.split("\t", 3)
            lines.append(LogLine(attempt, datetime.fromisoformat(at), level, source, told.replace("\0", "\n")))
    return lines
