"""All ways of executing, in the order in which their lanes stand on the board. To add one, write its module and name it here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.errors import RegistryError
from fastq.work.execute.loop import Loop
from fastq.work.execute.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.jobs.worker import Worker
    from fastq.work.execute.mode import Mode
    from fastq.work.shared.lane import Outbox

MODES: tuple[type[Mode], ...] = (Threads, Loop)


def modes_for(workers: Iterable[Worker[Any]], outbox: Outbox) -> list[Mode]:
    """Make the modes that these workers are of; the first of all where there is no worker."""
    wanted = {worker.mode: type(worker).__qualname__ for worker in workers} or {MODES[0].name: ""}
    for name in wanted.keys() - {mode.name for mode in MODES}:
        names = ", ".join(repr(mode.name) for mode in MODES)
        raise RegistryError(f"{wanted[name]}.mode: expected one of {names}, got {name!r}; leave it out")
    return [mode(outbox, number) for number, mode in enumerate(MODES) if mode.name in wanted]
