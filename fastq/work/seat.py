"""The seat that a child of the fork server is given, its first steps, and its exit.

Run by the main thread of a worker process, before and after process.py. The supervisor's main thread makes the seat
(host/fork_server.py), which nobody changes afterwards, and knows the exit codes (host/places.py). The module keeps no state, and
deliberately knows nothing of the work in between.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from setproctitle import setproctitle

from fastq import log
from fastq.hooks import leaving
from fastq.work.codec import codec
from fastq.work.shared import forks, stdout

if TYPE_CHECKING:
    from pathlib import Path

    from fastq.config import Config

BOOT_FAILED, RECYCLED, BROKEN = 3, 4, 5
"""Exit codes that the supervisor tells apart from accidents."""

GC_THRESHOLD = 50_000
"""Container objects made between two young collections: a claim makes thousands that all die young. A guess; not measured."""


@dataclass
class Seat:
    """Everything a child is told: its number in the database, its place, its desk on the board, the ends of its pipes."""

    number: int
    place: int
    desk: int
    config: Config
    target: str
    app_dir: Path | None
    url: str = field(repr=False)
    board_fd: int
    control_fd: int  # the supervisor's lines: stop, kill, cancel ID ...
    wake_read: int  # bytes that wake the producer: its own threads and the supervisor write them
    wake_write: int


def sit_down(seat: Seat) -> None:
    """Undo the settings that a child must not have of its parent, and die with the parent."""
    forks.die_with_parent()
    forks.ignore_signals()
    faulthandler.enable()
    faulthandler.register(signal.SIGQUIT, all_threads=True)
    random.seed()
    stdout.install()
    gc.set_threshold(GC_THRESHOLD, 20, 100)
    log.set_up(seat.config)
    codec.use(seat.config.codec)
    setproctitle(f"fastq: worker {seat.place + 1}/{seat.config.process_count} starting")


def end(code: int) -> NoReturn:
    """End without the app's exit handlers, among threads that may be stuck; an end in good order sends what hooks have kept."""
    if code in (0, RECYCLED):
        leaving.send_off()
    for flush in (stdout.finish, sys.stderr.flush):
        try:
            flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
