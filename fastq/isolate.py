"""Say that each job of a worker runs in a process of its own: `isolate = True`, or `isolate = Isolate(memory=...)`.

Stated in a worker's class while the application is imported, checked when the worker is registered (jobs/worker_faults.py), and
read by the processes that execute the jobs (work/isolated/). A plain value. It deliberately has no number of jobs after which a
process is replaced: a process that has executed one job is not clean for the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastq.errors import OptionError

LEAST_MEMORY = 16_777_216
"""Bytes: less leaves no room for what Python and fastq need themselves to read a job and to tell of its end. A guess."""


@dataclass(frozen=True)
class Isolate:
    """Each job runs in a process of its own, which may take so many bytes of `memory` beside those that it starts with."""

    memory: int | None = None  # None: no limit

    def __post_init__(self) -> None:
        """Refuse anything but a number of bytes."""
        memory: object = self.memory
        if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < LEAST_MEMORY):
            raise OptionError(
                f"Isolate(memory={memory!r}): expected a whole number of bytes, {LEAST_MEMORY} at least, such as 512 * 2**20"
            )


def isolation_of(value: object) -> Isolate | None:
    """Return what a worker says of isolation, None if its jobs share a process; OptionError if it is no such value."""
    if isinstance(value, Isolate):
        return value
    if not isinstance(value, bool):
        raise OptionError(f"isolate: expected True, False or Isolate(memory=...), got {value!r}")
    return Isolate() if value else None
