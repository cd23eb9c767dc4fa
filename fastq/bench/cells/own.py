"""fastq as a system that cells are asked of, in the schema `fastq_bench`.

Run in the main thread of the program that measures, which owns the connection that it is given and hands it back. It starts the
programs of subject.py and empties the schema; nothing else is kept.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin import pauses
from fastq.bench.cells.meters import Meters
from fastq.bench.cells.programs import Program
from fastq.bench.cells.subject import EVERYTHING
from fastq.bench.cost import postmaster
from fastq.bench.load import fill

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

RATE = 150_000
"""Jobs per second that it is expected to work, about: README's figure is twice that, on a quieter machine."""

CODE = "from fastq.bench.cells.subject import main; main()"
"""Started by `-c`, so that the fork server finds no main module to import again in each worker process."""

_FIRST = "select id from fastq_bench.job order by id limit 1"
_VACUUM = "vacuum (analyze) fastq_bench.job"


class Fastq:
    """The system; see `System` in cell.py."""

    name = "fastq"
    rate = RATE

    def __init__(self, connection: Connection, config: Config) -> None:
        self._connection = connection
        self._config = config
        self._meters = Meters.of_postgres(connection, postmaster(connection))
        self.slots = config.threads
        self.procs = config.process_count

    def empty(self) -> None:
        """Remove all jobs, and pause all queues until a host is told to go."""
        fill(self._connection, 0, paused=False)
        pauses.pause(self._connection, EVERYTHING)

    def settle(self) -> None:
        """Vacuum as autovacuum would have done."""
        self._connection.execute(_VACUUM)

    def unfinished(self) -> bool:
        """Look for a job that has not ended: these have left the table."""
        return bool(self._connection.execute(_FIRST))

    def meters(self) -> Meters:
        """Return the meters of the server."""
        return self._meters

    def enqueuer(self, order: dict[str, Any]) -> Program:
        """Start a client."""
        return self._program(order, self._config)

    def host(self, order: dict[str, Any]) -> list[Program]:
        """Start a supervisor with its processes."""
        queues = dict.fromkeys(order["queues"], order["slots"])
        return [self._program(order, replace(self._config, procs=order["procs"], queues=queues))]

    @staticmethod
    def _program(order: dict[str, Any], config: Config) -> Program:
        # A line of the log for each job that fails on purpose is written, as it would be, and nobody reads it.
        errors = subprocess.DEVNULL if order["job"] == "fail" else None
        return Program([sys.executable, "-c", CODE], order | {"config": msgspec.to_builtins(config)}, errors=errors)
