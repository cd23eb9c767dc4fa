"""Put the parts together by which a supervisor shows how it is: none unless the settings or a service manager ask for it.

Called once by the supervisor's main thread, when it makes its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastq.host.vitals.notify import Manager

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.host.vitals.gauges import Gauges
    from fastq.lead.maintainer import Maintainer
    from fastq.service import Service


class Beating(Protocol):
    """The part of the registrar that is looked at."""

    beaten_at: float | None  # monotonic time of the last beat that was answered

    @property
    def gauges(self) -> Gauges:
        """Give the figures of the processes."""
        ...


def shown(
    config: Config,
    board: Board,
    registrar: Beating,
    working: Callable[[], int],
    maintainer: Maintainer,
) -> list[Service]:
    """Return the services: the looks, and the port if there is to be one."""
    manager = Manager.named()
    if not manager and not config.health:
        return []
    from fastq.host.vitals.vitals import Vitals  # noqa: PLC0415 - most hosts are not asked

    vitals = Vitals(config, board, lambda: registrar.beaten_at, working, maintainer, manager, registrar.gauges)
    if not config.health:
        return [vitals]
    from fastq.host.vitals.port import Port  # noqa: PLC0415 - loads asyncio, which this process needs for nothing else

    return [vitals, Port(config.health, vitals)]
