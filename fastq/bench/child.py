"""Start a program that is measured, talk to it in lines, end it.

Both sides of the talk are here: `Program` in the program that measures, `order` and `tell` in the one that is measured. The
first line is the order, as JSON on stdin (not in the arguments: a database's URL may hold a password); answers are a word
and numbers on stdout. The end of stdin ends the program, so nothing outlives a measurement that was killed.

A program is started by `-c`, so that the fork server finds no main module to import again in each worker process. The main thread
of the program that measures owns a `Program`, starts it and hears; the main thread of a program that it has started answers.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Self

import msgspec

from fastq.config import Config
from fastq.errors import FastqError

if TYPE_CHECKING:
    from collections.abc import Sequence

END_TIMEOUT = 60.0
"""Seconds that a program gets to end in order: more than a supervisor takes at its slowest."""


class Order(msgspec.Struct):
    """The order of a program that is measured."""

    config: Config
    numbers: dict[str, int]


class Program:
    """A program that is measured: `serve()` of a module of this package."""

    def __init__(self, module: str, config: Config, fds: Sequence[int] = (), **numbers: int) -> None:
        code = f"from fastq.bench.{module} import serve; serve()"
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own code
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=fds,
            start_new_session=True,  # a Ctrl-C is for us; the end of its stdin then ends the program in order
        )
        self.pid = self._process.pid
        self.say(msgspec.json.encode(Order(config, numbers)).decode())

    def say(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, word: str) -> list[int]:
        """Wait for the line that begins with the word; return its numbers."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        said, *numbers = line.split() or ["nothing"]
        if said != word:
            raise FastqError(f"the program that is measured was expected to say {word!r}, and said {said!r}: see its log above")
        return [int(number) for number in numbers]

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
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def order() -> Order:
    """Read the order."""
    return msgspec.json.decode(sys.stdin.readline(), type=Order)


def tell(word: str, *numbers: int) -> None:
    """Send an answer."""
    sys.stdout.write(" ".join([word, *map(str, numbers)]) + "\n")
    sys.stdout.flush()
