"""A terminal for tests: a pseudo-terminal with a program in it, and the screen that its output makes.

It knows the control sequences that `fastq top` uses, and no others: another one fails the test that reads the screen.
"""

import codecs
import fcntl
import os
import re
import struct
import subprocess
import termios
import threading
from contextlib import contextmanager, suppress

from tests.cli.conftest import environment
from tests.helpers import wait_for

TOKEN = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|\x1b|[\r\n]|[^\x1b\r\n]+")
BEGUN = re.compile(r"\x1b(\[[\d;?]*)?\Z")


class Terminal:
    """A program in a pseudo-terminal. A thread reads its output; the test reads `screen` and writes keys."""

    def __init__(self, process, master, size):
        self.process = process
        self.written = ""  # all that the program has written
        self.alternate = False
        self._master = master
        self._unread = ""
        self._unknown = []
        self._columns, self._lines = size
        self._rows = {}
        self._at = (0, 0)
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def rows(self):
        with self._lock:
            assert self._unknown == []
            return ["".join(self._rows.get(line, [])).rstrip() for line in range(self._lines)]

    @property
    def screen(self):
        return "\n".join(self.rows)

    def press(self, *keys):
        for key in keys:
            os.write(self._master, key.encode())

    def wait_until(self, condition, what):
        with suppress(AssertionError):  # told below, with the screen as it is then
            wait_for(lambda: condition() or self.process.poll() is not None, 30)
        assert condition(), f"waited for {what} in\n{self.screen}\n{self.written[-500:]}"

    def wait_until_it_shows(self, *texts):
        self.wait_until(lambda: all(text in self.screen for text in texts), texts)

    def resize(self, columns, lines):
        with self._lock:
            self._columns, self._lines = columns, lines
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self):
        decode = codecs.getincrementaldecoder("utf-8")().decode
        while True:
            try:
                chunk = os.read(self._master, 65_536)
            except OSError:
                return
            with self._lock:
                self._take(decode(chunk))

    def _take(self, text):
        self.written += text
        text = self._unread + text
        begun = BEGUN.search(text)
        self._unread = text[begun.start() :] if begun else ""
        for found in TOKEN.finditer(text[: begun.start()] if begun else text):
            if found[3] is None:
                self._put(found[0])
            else:
                self._control(found[1], found[2], found[3])

    def _control(self, private, numbers, letter):
        if private:
            self.alternate = {"1049h": True, "1049l": False}.get(numbers + letter, self.alternate)
        elif letter == "H":
            line, column = [int(number) for number in numbers.split(";")] if numbers else [1, 1]
            self._at = (line - 1, column - 1)
        elif letter == "K":
            self._rows.pop(self._at[0], None)
        elif letter == "J":
            self._rows.clear()
        elif letter != "m":
            self._unknown.append(numbers + letter)

    def _put(self, text):
        line, column = self._at
        if text in "\r\n":
            self._at = (line, 0) if text == "\r" else (line + 1, column)
            return
        row = self._rows.setdefault(line, [])
        row += [" "] * (column - len(row))
        row[column : column + len(text)] = text
        self._at = (line, column + len(text))


@contextmanager
def terminal(folder, *words, size=(80, 24), **variables):
    """Start a program in a terminal of so many columns and lines; kill it if the test has not ended it."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    known = {name: value for name, value in environment(TERM="xterm-256color", **variables).items() if name != "COLUMNS"}
    process = subprocess.Popen(words, cwd=folder, env=known, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    opened = Terminal(process, master, size)
    opened.mode = lambda: termios.tcgetattr(slave)
    try:
        yield opened
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)
        os.close(slave)
