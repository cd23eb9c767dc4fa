"""Keep what jobs print in whole lines: `print` writes a text and its line end apart, and sixteen threads print at once.

Installed in each worker process, in place of `sys.stdout`; every thread that prints uses it. What a thread has written is kept
until its line ends, and then goes out in one write. `flush()` gives out what this thread has begun, as for a row of dots; what
others have begun stays theirs until they end it, or the process ends (`finish`).

It deliberately leaves `sys.stderr` alone, where the log writes line by line already, and whatever is no text file, such as the
buffer of a test.
"""

from __future__ import annotations

import io
import sys
import threading

LONGEST = 8_192
"""Characters that are kept of a line without an end: what a text file keeps itself."""


class Lines(io.TextIOWrapper):
    """A text file like the one that it takes the place of."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        """Write where the other wrote, in its encoding."""
        stream.flush()
        self._first = stream  # who lets go of it closes what both write to
        super().__init__(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)
        self._begun: dict[int, str] = {}  # by thread, which alone touches its own; but for `finish`

    def write(self, text: str, /) -> int:
        """Give out whole lines, and keep the rest."""
        mine = threading.get_ident()
        begun = self._begun.pop(mine, "")
        end = text.rfind("\n") + 1
        if end or len(begun) > LONGEST:
            super().write(begun + text[:end])
            begun = ""
        if end < len(text):
            self._begun[mine] = begun + text[end:]
        elif begun:
            self._begun[mine] = begun
        return len(text)

    def flush(self) -> None:
        """Give out what this thread has begun."""
        if begun := self._begun.pop(threading.get_ident(), ""):
            super().write(begun)
        super().flush()

    def finish(self) -> None:
        """Give out all that was begun: nobody will end it."""
        while self._begun:
            super().write(self._begun.popitem()[1])
        super().flush()


def install() -> None:
    """Have this process print by the line."""
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout = Lines(sys.stdout)


def finish() -> None:
    """Give out what was begun, at the end of the process."""
    if isinstance(sys.stdout, Lines):
        sys.stdout.finish()
    else:
        sys.stdout.flush()
