"""The floor: the statements of claim and complete, pumped as fast as the database answers. The limit of this machine, today.

The function `pump` runs in the main thread of the program that measures, makes the board and starts the others; `serve` is one of
as many programs as there would be worker processes, with a `Pump` and a connection of its own in its main thread. They share the
frontier on the board, which the one with the turn writes. They send the very statements of the runtime, prepared, in batches of
the same size, claim in turns from one frontier as the runtime does, and make nothing of the answer: no job, no args, no integer
per job. The ids that the claim brings become the array that the completion takes by copying every eighth byte to every twelfth
place.

The turn is waited for in the kernel, which hands it over at once; the runtime cannot wait there (it must be able to give up).
Each program claims and completes in turn on one connection. Completing beside the claims, on a second one, was no faster:
without the archive 6 % slower, with it the same (medians of six, two cores).
"""

from __future__ import annotations

import fcntl
import struct
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from fastq.args.options import DEFAULT_QUEUE
from fastq.bench.child import Program, order, tell
from fastq.bench.load import left
from fastq.board.board import Board
from fastq.errors import FastqError
from fastq.postgres import db
from fastq.sql.statements import in_schema
from fastq.work.cursor.claims import NO_BOUND

if TYPE_CHECKING:
    from fastq.bench.cost import Meter
    from fastq.config import Config
    from fastq.postgres.db import Connection

_NUMBER = struct.Struct(">q")
_ARRAY = struct.Struct(">iiiii")  # dimensions, has nulls, element oid, length, lower bound
INT8 = 20  # the oid of bigint, in every Postgres


class Floor(NamedTuple):
    """The figures of one run; CPU is None if the server is not on this machine."""

    jobs_per_s: float
    postgres_us: float | None
    longest_stall: float  # seconds between two completions, of whichever programs


def pump(connection: Connection, config: Config, jobs: int, meter: Meter) -> Floor:
    """Work the jobs that wait in the open queue."""
    shared = Board.make([1], 1, 1)
    (first,) = connection.execute(in_schema("select min(seq) from fastq.job", config.schema))[0]
    shared.cursor(0).frontier[0] = first - 1
    with ExitStack() as running:
        programs = [
            running.enter_context(Program("floor", config, fds=[shared.fd], fd=shared.fd, place=place))
            for place in range(config.process_count)
        ]
        for program in programs:
            program.hear("ready")
        spent_before, began = meter.read(programs[0].pid), time.monotonic_ns()
        for program in programs:
            program.say("go")
        answers = [program.hear("done") for program in programs]
        spent = meter.read(programs[0].pid).since(spent_before)
    if sum(count for count, *_ in answers) != jobs or left(connection):
        raise FastqError(f"the floor completed {[count for count, *_ in answers]} of {jobs} jobs")
    completed = sorted(moment for _, *moments in answers for moment in moments)
    return Floor(
        jobs_per_s=jobs / (completed[-1] - began) * 1e9,
        postgres_us=None if spent.postgres is None else spent.postgres / jobs * 1e6,
        longest_stall=max(after - before for before, after in pairwise([began, *completed])) / 1e9,
    )


def serve() -> None:
    """Be one of the programs."""
    given = order()
    config, numbers = given.config, given.numbers
    shared = Board(numbers["fd"], [1], 1, 1)
    pumped = Pump(config, shared, numbers["place"] + 1)
    tell("ready")
    input()
    tell("done", pumped.pump(), *pumped.completed_at)
    sys.stdin.read()  # stay until the meters have been read: the CPU time of a session is counted elsewhere when it ends


class Pump:
    """One program's connection."""

    def __init__(self, config: Config, shared: Board, number: int) -> None:
        self._shared = shared
        self._frontier = shared.cursor(0).frontier
        self._number = number << 32
        self._batch = config.batch
        self._bound = [_NUMBER.pack(number) for number in NO_BOUND[:2]]
        self.completed_at: list[int] = []  # monotonic ns, of each completion
        self._complete_name = "job_complete_archive" if config.archive else "job_complete"
        self._connection = db.connect(config.database_url, role="floor", schema=config.schema)
        self._claim_part(0, 0)  # finds nothing, but has the server plan it: a worker process does that when it connects, too
        self._complete(b"", 0)

    def pump(self) -> int:
        """Claim and complete until nothing is left; return how many."""
        count = 0
        while claimed := self._claim():
            count += self._complete(*claimed)
            self.completed_at.append(time.monotonic_ns())
        return count

    def _claim(self) -> tuple[bytes, int] | None:
        """Claim the next part of the backlog; return its ids as Postgres sent them, and its number.

        Parts are as many numbers long as a batch, which is all of them: the preloaded jobs have one priority and numbers
        without gaps. Programs claim their parts side by side, as worker processes do.
        """
        fcntl.lockf(self._shared.fd, fcntl.LOCK_EX, 1, 0)
        after = self._frontier[0]
        end = self._frontier[0] = after + self._batch
        fcntl.lockf(self._shared.fd, fcntl.LOCK_UN, 1, 0)
        self._number += 1
        ids = self._claim_part(after, end)
        return (ids, self._number) if ids else None

    def _claim_part(self, after: int, end: int) -> bytes | None:
        params = [_NUMBER.pack(self._number), DEFAULT_QUEUE.encode(), _NUMBER.pack(after), _NUMBER.pack(end), *self._bound]
        _, row = self._connection.run_blobs("job_claim_part", params)
        return row[0]

    def _complete(self, ids: bytes, claim: int) -> int:
        count, _ = self._connection.run_blobs(self._complete_name, [_array(ids), _array(_NUMBER.pack(claim))])
        return count


def _array(blob: bytes) -> bytes:
    """Make a bigint[] of integers that lie side by side."""
    count = len(blob) // 8
    elements = bytearray(b"\0\0\0\x08\0\0\0\0\0\0\0\0" * count)
    for byte in range(8):
        elements[4 + byte :: 12] = blob[byte::8]
    return _ARRAY.pack(1, 0, INT8, count, 1) + elements
