"""Keep what jobs print in whole lines: `print` writes a text and its line end apart, and sixteen threads print at once.

The main thread of a worker process calls `install` when it sits down, in place of `sys.stdout`, and `finish` when it ends (both
in seat.py); every thread that prints uses it in between. A thread's text is kept until its line ends, and then goes out in one
write. `flush()` gives out the line that this thread has begun, as for a row of dots; lines of other threads stay until they end,
or the process ends (`finish`).

It deliberately leaves `sys.stderr` alone, where the log writes line by line already, and a stdout that is no text file, such as
the buffer of a test.
"""

from __future__ import annotations

import io
import logging
import sys
import threading

from fastq.events import Seldom, emit

LONGEST = 8_192
"""Characters that are kept of a line without an end: as many as a text file keeps itself."""


class Lines(io.TextIOWrapper):
    """A text file like the one that it takes the place of."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        """Write where the other wrote, in its encoding."""
        stream.flush()
        self._first = stream  # kept, since letting go of it would close the descriptor that both write to
        super().__init__(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)
        self._seldom = Seldom()  # several threads may use it here: at worst there are two equal events
        self._begun: dict[int, str] = {}  # by thread, which alone touches its own; but for `finish`

    def write(self, text: str, /) -> int:
        """Give out whole lines, and keep the rest; text that cannot be written is lost with an event, and fails no job."""
        mine = threading.get_ident()
        begun = self._begun.pop(mine, "")
        end = text.rfind("\n") + 1
        if end or len(begun) > LONGEST:
            self._give_out(begun + text[:end])
            begun = ""
        if end < len(text):
            self._begun[mine] = begun + text[end:]
        elif begun:
            self._begun[mine] = begun
        return len(text)

    def flush(self) -> None:
        """Give out the line that this thread has begun."""
        self._give_out(self._begun.pop(threading.get_ident(), ""))

    def finish(self) -> None:
        """Give out all that was begun: nobody will end it."""
        while self._begun:
            self._give_out(self._begun.popitem()[1])
        self._give_out("")

    def _give_out(self, text: str) -> None:
        try:
            if text:
                super().write(text)
            super().flush()
        except OSError as error:  # a disk that is full, a pipe that nobody reads any more
            if self._seldom.lets(str(error)):
                emit("stdout.lost", level=logging.WARNING, error=error)


def install() -> None:
    """Have this process print by the line."""
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout = Lines(sys.stdout)


def finish() -> None:
    """Give out all lines that were begun, at the end of the process."""
    getattr(sys.stdout, "finish", sys.stdout.flush)()  # by its name: something of the user's may stand around our `Lines`
