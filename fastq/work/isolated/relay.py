"""Hand on what an isolated job logs and prints, to the worker process, which keeps it with the job.

Used in the process of the job, by each thread that logs or prints; the thread that ends the attempt takes the lines that were
left. A line that is printed goes when it ends, so that two threads which print at once do not mix theirs, and the end of the
attempt sends the lines that have none.

Invariant: what has been handed on is kept, however the process of the job ends. It deliberately keeps no ring of its own: the
transcript in the worker process is one, and says how much is left out.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fastq.joblogs.transcript import LONGEST, shortened
from fastq.texts import clean
from fastq.work.isolated.wire import Logged

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 262_144
"""Characters of a message: a print of any length goes in pieces, so that none fills the memory of the worker process. A guess."""


class Relay:
    """The transcript of the one attempt of this process, as its code reaches it."""

    def __init__(self, send: Callable[[Logged], None]) -> None:
        self._send = send
        self._begun: dict[tuple[str, int], str] = {}  # lines without an end, by stream and thread, which writes its own alone

    def log(self, at: float, level: str, source: str, text: str) -> None:
        """Hand a record on."""
        if len(text) > LONGEST:
            text = shortened(text)
        self._send(Logged(clean(source), clean(text), level, at))

    def print(self, source: str, text: str) -> None:
        """Hand on the lines that have ended."""
        key = (source, threading.get_ident())
        text = self._begun.pop(key, "") + text
        end = text.rfind("\n") + 1
        if len(text) - end > LONGEST:
            end = len(text)
        for first in range(0, end, MOST):
            self._send(Logged(source, clean(text[first : min(first + MOST, end)])))
        if end < len(text):
            self._begun[key] = text[end:]

    def end(self) -> None:
        """Hand on the lines that have no end."""
        while self._begun:
            (source, _), text = self._begun.popitem()
            self._send(Logged(source, clean(text) + "\n"))
