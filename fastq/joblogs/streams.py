"""Hear the records and the prints of a process: a handler of `logging` beside the application's own, and a tee for each stream.

The main thread of a worker process puts them in place before any executor runs, if the application has a kind with logs, and
takes them away when the jobs have ended. Every thread that logs or prints uses them in between: one look at a context variable,
where no such job runs.

Invariant: each print goes where it went before, and first; a record reaches all other handlers. No text that cannot be kept fails
a job. It deliberately leaves loggers and their levels alone, and hears nothing that is written to a descriptor past Python: that
of C code, and of programs that a job starts.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from fastq.joblogs import keeping
from fastq.texts import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

STREAMS = ("stdout", "stderr")


class Tee:
    """A stream that keeps the prints of jobs, and is otherwise like the one that it takes the place of."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str, /) -> int:
        """Print, and keep the text if a job prints it."""
        count: int = self._stream.write(text)
        transcript = keeping.current()
        if transcript is not None:
            transcript.print(self._name, text)
        return count

    def writelines(self, lines: Iterable[str], /) -> None:
        """Print each of them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Be like the stream."""
        return getattr(self._stream, name)


class RecordHandler(logging.Handler):
    """Keeps the records of jobs. It takes no lock of its own: a transcript has one."""

    def createLock(self) -> None:  # noqa: N802 - the name that logging gave it
        """Make none."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Keep a record if a job has made it."""
        transcript = keeping.current()
        if transcript is None:
            return False
        transcript.log(record.created, record.levelname.lower(), record.name, _text(record))
        return True


_handler: RecordHandler | None = None  # these two are the main thread's
_tees: dict[str, Tee] = {}


def listen(level: str) -> None:
    """Hear everything from now on; of the records those of this level and above. May be called again."""
    global _handler  # noqa: PLW0603 - the handler of the process
    if _handler is None:
        _handler = RecordHandler()
        logging.getLogger().addHandler(_handler)
    _handler.setLevel(logging.getLevelNamesMapping()[level.upper()])
    for name in STREAMS:
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Tee):
            _tees[name] = Tee(stream, name)
            setattr(sys, name, _tees[name])


def level() -> str | None:
    """Return the level of the records that are heard, None if nothing is."""
    return None if _handler is None else logging.getLevelName(_handler.level).lower()


def leave() -> None:
    """Hear nothing any longer; a stream that somebody else has replaced since stays as it is."""
    global _handler  # noqa: PLW0603 - the same
    if _handler is not None:
        logging.getLogger().removeHandler(_handler)
        _handler = None
    for name, tee in _tees.items():
        if getattr(sys, name) is tee:
            setattr(sys, name, tee._stream)  # noqa: SLF001 - ours
    _tees.clear()


_format = logging.Formatter()


def _text(record: logging.LogRecord) -> str:
    """Return the message of a record, and its traceback."""
    try:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + (record.exc_text or _format.formatException(record.exc_info))
        if record.stack_info:
            text += "\n" + record.stack_info
    except Exception as error:  # noqa: BLE001 - arguments that do not fit, a __str__ that raises: other handlers tell of it
        return f"(its text could not be made: {name_of(error)})"
    return text
