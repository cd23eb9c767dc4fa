"""fastq as a measured program: a supervisor until stdin ends, or a client that enqueues as it is ordered.

Run in the main thread of a program that `own.py` starts. As a supervisor it has one thread beside it, which listens to stdin;
the board that it looks at is the supervisor's, and it writes nothing there. All queues are paused until it is told to go, so
that the start of its processes is not measured.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import fastq
from fastq import log
from fastq.admin import pauses
from fastq.bench.cells import speak
from fastq.bench.cells.jobs import ARGS
from fastq.bench.route import is_up
from fastq.config import Config
from fastq.enqueue.client import Client
from fastq.host.supervisor import Supervisor
from fastq.postgres import db

if TYPE_CHECKING:
    from types import SimpleNamespace

APP = "fastq.bench.cells.jobs"
APP_DIR = Path(fastq.__file__).parent.parent
"""The folder that `fastq` itself was imported from: the measurement must not depend on the current directory."""

GLANCE = 0.05
"""Seconds between two looks whether all processes are there."""

TERMINATE = 15
"""SIGTERM: the supervisor's own way to stop in order."""

EVERYTHING = pauses.Target(everything=True)
"""What is paused until a host is told to go."""


def main() -> None:
    """Do as ordered."""
    given = speak.order()
    config = msgspec.convert(given.config, Config)
    log.set_up(config)
    if given.verb == "work":
        _work(given, config)
    else:
        with Client(config=config) as client:
            client.enqueue_copy([])  # connects
            speak.tell("ready")
            speak.enqueue(given, _sender(given, client))
            speak.until_end()


def _sender(given: SimpleNamespace, client: Client) -> Any:
    """Return the call for what was ordered: one job, or a batch."""
    kind = ARGS[given.job]
    at = datetime.fromtimestamp(given.due, UTC) if given.due else None

    def made(number: int) -> Any:
        return kind(**speak.args_of(given.job, number, given.path))

    def one(numbers: list[int], queue: str) -> None:
        client.enqueue(made(numbers[0]), queue=queue, at=at)

    def many(numbers: list[int], queue: str) -> None:
        client.enqueue_many(map(made, numbers), queue=queue, at=at)

    return one if given.batch == 1 else many


def _work(given: SimpleNamespace, config: Config) -> None:
    target = f"{APP}:{'awaiting' if given.job == 'sleep' else 'registry'}"
    supervisor = Supervisor(config, target, config.database_url, APP_DIR)
    shown = supervisor._board  # noqa: SLF001 - the memory that a supervisor shares with its processes; a measurement reads along
    threading.Thread(target=_listen, args=(shown, config), daemon=True).start()
    sys.exit(supervisor.run())


def _listen(shown: Any, config: Config) -> None:
    """Say when all processes are there, let the queues go when told to, and stop the supervisor at the end of stdin."""
    try:
        while not is_up(shown, config.process_count):
            time.sleep(GLANCE)
        speak.tell("ready")
        speak.until("go")
        connection = db.connect(config.database_url, role="bench", schema=config.schema)
        pauses.resume(connection, EVERYTHING)
        connection.close()
        speak.until_end()
    finally:
        os.kill(os.getpid(), TERMINATE)
