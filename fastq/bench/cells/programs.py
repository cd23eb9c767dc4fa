"""A measured program, seen from outside: started, given its order, told to go, ended.

Run in the main thread of the program that measures, which owns each `Program`. The order goes over stdin and not in the
arguments, since a database's URL may hold a password. A program runs in a session of its own: a Ctrl-C is for us, and whatever
it leaves behind is ended with its group. Nothing else is shared with it.
"""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import msgspec

from fastq.errors import FastqError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PATIENCE = 120.0
"""Seconds to wait for an answer: programs of Node.js or Python that start on a busy machine take some, a filling takes most."""

END_TIMEOUT = 8.0
"""Seconds that a program gets to end in order when its stdin has ended. What was measured has been read by then."""

KILL = 9
"""SIGKILL, for what is left of the program's session then."""


class Program:
    """A program that is measured, with the pipes to it."""

    def __init__(
        self, command: Sequence[str], order: Mapping[str, Any], folder: Path | None = None, errors: int | None = None
    ) -> None:
        self._name = command[-1]
        self._process = subprocess.Popen(  # noqa: S603 - commands that we have written
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=folder, start_new_session=True
        )
        self.pid = self._process.pid
        self._rest = b""
        self.say(msgspec.json.encode(order).decode())

    def say(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, word: str, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait for the line that begins with the word, passing over others; return what it tells."""
        while True:
            said, _, facts = self._line(patience).partition(" ")
            if said == word:
                return dict(msgspec.json.decode(facts or "{}"))

    def _line(self, patience: float) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], patience)
            found = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            if not found:
                what = "ended" if ready else f"said nothing for {patience:.0f} s"
                raise FastqError(f"the program {self._name} that is measured {what}: see its log above")
            self._rest += found
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def __enter__(self) -> Self:
        """Return the program."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it in order, or else by force."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_TIMEOUT)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            pass
        with suppress(ProcessLookupError):
            os.killpg(self.pid, KILL)
        self._process.wait()
        self._process.stdout.close()
