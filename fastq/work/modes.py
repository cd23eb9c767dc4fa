"""All ways of executing, in the order in which their lanes stand on the board. To add one, write its module and name it here.

Read by the main thread of a worker process when it starts, and by that of `fastq run` (the registry is checked, the board is
made). Nothing is kept here: a process keeps the modes that were made for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.errors import RegistryError
from fastq.work.execute.bundles import Bundles
from fastq.work.execute.loop import Loop
from fastq.work.execute.threads import Threads
from fastq.work.isolated.apart import Apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastq.jobs.worker import Worker
    from fastq.work.execute.mode import Mode
    from fastq.work.shared.lane import Outbox

MODES: tuple[type[Mode], ...] = (Threads, Loop, Apart, Bundles)


def check_modes(workers: Iterable[Worker[Any]]) -> None:
    """Refuse a worker with a mode that is none of ours: a registry does not know them, and a process could not start."""
    known = [mode.name for mode in MODES]
    for worker in workers:
        if worker.mode not in known:
            names = ", ".join(map(repr, known))
            raise RegistryError(
                f"{type(worker).__qualname__}.mode: expected one of {names}, got {worker.mode!r}; leave it out: "
                "registering sets it, by the form of `work`"
            )


def modes_for(workers: Iterable[Worker[Any]], outbox: Outbox, among: Sequence[type[Mode]] = MODES) -> list[Mode]:
    """Make the modes that these workers are of, in the order of MODES; the first of all where there is no worker.

    `among` are these or, in a test, those that stand for them, in the same order.

    Called before any thread of the process runs: a mode may fork here.
    """
    all_workers = list(workers)
    by_mode: dict[str, list[Worker[Any]]] = {}
    for worker in all_workers:
        by_mode.setdefault(worker.mode, []).append(worker)
    wanted = by_mode or {among[0].name: []}
    modes = [mode(outbox, number) for number, mode in enumerate(among) if mode.name in wanted]
    for mode in modes:
        mode.prepare(wanted[mode.name])
    for mode in modes:
        mode.meet(modes, all_workers)
    return modes
