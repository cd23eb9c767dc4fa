"""The terminal: keys from it, lines to it. Its mode is changed while a `Display` is open, and restored when it closes.

Used by the main thread alone. A painting writes the lines that differ from those on the screen, in one piece. rich decides about
colours (NO_COLOR, TERM) and has the control sequences; keys are read from the descriptor, one at a time, without waiting for the
end of a line. Ctrl-C comes as a key, so that the terminal is always restored.

SIGTERM and SIGHUP end the program, but restore the terminal first. A resize is seen without a signal: the size is asked for
before each painting, REST seconds later at most.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastq.cli.top.columns import Line

REST = 0.5
"""Seconds after which the screen is composed again if nothing happens: the age of the figures goes by seconds."""

LATE = 0.05
"""Seconds for the rest of a key's sequence, which a network may deliver in two parts; Escape alone takes so long."""

SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)|.", re.DOTALL)
BEGUN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?\Z")

NAMED: dict[str, str] = {
    **dict.fromkeys(("\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), "right"),
    **dict.fromkeys(("\x1b[D", "\x1bOD"), "left"),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end"),
    **dict.fromkeys(("\r", "\n"), "enter"),
    **dict.fromkeys(("\x7f", "\x08"), "backspace"),
    "\x1b": "esc",
    "\x1b[5~": "pgup",
    "\x1b[6~": "pgdn",
    "\x1b[Z": "backtab",
    "\t": "tab",
    "\x03": "ctrl-c",
    "\x15": "ctrl-u",
}
"""Keys by the characters that terminals send for them: those of xterm, and of the Linux console and rxvt where they differ."""

LOCAL = termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
"""The parts of a terminal's mode that are switched off: lines, echo, signals by keys."""


def keys_of(text: str) -> list[str]:
    """Return the keys of what a terminal has sent: printable characters as they are, others by name, unknown ones not at all."""
    sent = [str(one[0]) for one in SEQUENCE.finditer(text)]
    found = [NAMED.get(one, one) for one in sent]
    return [key for key in found if (len(key) > 1 and not key.startswith("\x1b")) or key.isprintable()]


class Display:
    """The screen and the keyboard of a terminal."""

    def __init__(self, console: Console, keyboard: int) -> None:
        self._console = console
        self._keyboard = keyboard
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._painted: list[Line] = []
        self._size = (0, 0)
        self._gone = False  # nothing comes from the keyboard any more: the terminal is closed

    def size(self) -> tuple[int, int]:
        """Return columns and lines, as they are now."""
        try:
            found = os.get_terminal_size(self._console.file.fileno())
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def paint(self, lines: Sequence[Line], size: tuple[int, int]) -> None:
        """Show these lines, and write those that differ."""
        console = self._console
        with console:
            if size != self._size:
                console.control(Control.clear())
                self._size, self._painted = size, []
            for place, line in enumerate(lines):
                if place >= len(self._painted) or line != self._painted[place]:
                    console.control(Control.move_to(0, place), Control((ControlType.ERASE_IN_LINE, 2)))
                    console.print(Text.assemble(*line, no_wrap=True, end=""), end="", soft_wrap=True)
        console.file.flush()
        self._painted = [*lines]

    def keys(self, bell: int) -> list[str]:
        """Wait for keys, for a byte from `bell`, or for REST seconds; return the keys."""
        ready, _, _ = select.select([self._keyboard, bell], [], [], REST)
        if bell in ready:
            os.read(bell, 4096)
        if self._keyboard not in ready:
            return []
        text = self._read()
        while BEGUN.search(text) and not self._gone and select.select([self._keyboard], [], [], LATE)[0]:
            text += self._read()
        return [*keys_of(text), *(["gone"] if self._gone else [])]

    def _read(self) -> str:
        try:
            found = os.read(self._keyboard, 4096)
        except OSError:
            found = b""
        self._gone = not found
        return self._decode(found)


def is_terminal() -> bool:
    """Tell whether there is a terminal with a keyboard, on which lines can be painted."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not Console().is_dumb_terminal


@contextmanager
def opened() -> Iterator[Display]:
    """Give the display, on a screen of its own; what was on the terminal before is there again afterwards."""
    console = Console(highlight=False, markup=False, emoji=False)
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    mode = [*before]
    mode[3] &= ~LOCAL
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, mode)
        console.control(Control.alt_screen(True), Control.show_cursor(False))
        yield Display(console, keyboard)
    finally:
        console.control(Control.show_cursor(True), Control.alt_screen(False))
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _leave(number: int, _: object) -> None:
    """End the program by an exception, so that the terminal is restored."""
    raise SystemExit(128 + number)
