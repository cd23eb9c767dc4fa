"""Report keys that discarded jobs hold, which nobody may have noticed: at once, and again now and then while it lasts.

Made by the gatekeeper's chore, which has one. The chore's track alone calls and writes it, and it ends with the term. It is
called at each comparison of its memory with the tables. The comparison tells in which lines jobs are admitted. Where none of
them is a line of a gate that holds, no statement is run.

Invariant: each held key is reported within some looks, however many there are; a key that is held no longer is forgotten. It
deliberately changes nothing: an operator decides whether the job is run again or left out.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.admin.held import MOST, keys_in
from fastq.args.gates import HOLDS
from fastq.events import emit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.lead.term.chore import Site

TOLD_EVERY = 600.0
"""Seconds until a key is reported again while it is held: the figure of chores/unworked.py, for the same reason."""

AT_ONCE = 20
"""Keys that one look reports; the others come in the next ones. A guess: a screen of the log."""

BEGINS = f'[["{HOLDS}"'
"""The beginning of the gates of a job that may hold its key: that gate is its first."""


class Holds:
    """The keys that were found held in this term."""

    def __init__(self) -> None:
        self._due: dict[tuple[int, str], float] = {}  # by job and gate: monotonic time from which on to report it

    def look(self, site: Site, lines: Iterable[tuple[str, str, int]]) -> None:
        """Look for held keys, if jobs count in such a line: queue, gates, jobs."""
        if not any(gates.startswith(BEGINS) for _, gates, _ in lines):
            self._due = {}
            return
        now, before, told = time.monotonic(), self._due, 0
        self._due = {}
        for job, queue, gates, kind, _, age in site.connection.run("gate_held", MOST):
            for gate, key in keys_in(gates, HOLDS):
                due = before.get((job, gate), 0.0)
                if due <= now and told < AT_ONCE:
                    emit("gate.held", level=logging.WARNING, gate=gate, key=key, id=job, kind=kind, queue=queue, age=age)
                    due, told = now + TOLD_EVERY, told + 1
                self._due[job, gate] = due
