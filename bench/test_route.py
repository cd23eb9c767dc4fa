"""Ask how many jobs a second go the whole route, through the real supervisor and two processes.

Their start-up is not counted. `fastq bench` answers more: the floor, CPU, WAL, latency.
"""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from fastq.bench.child import Program
from fastq.bench.load import fill, left, open_queue

JOBS = 100_000


@pytest.mark.parametrize("archive", [True, False], ids=["archive", "no archive"])
def test_route(measured, size, config, connection, archive):
    config = replace(config, archive=archive)
    jobs = size(JOBS)
    with ExitStack() as running:

        def start():
            running.close()  # the supervisor of the round before
            fill(connection, jobs, paused=True)
            program = running.enter_context(Program("route", config, jobs=jobs))
            program.hear("ready")
            return (program,), {}

        def work(program):
            open_queue(connection)
            program.hear("done")

        measured(jobs, work, setup=start, rounds=3)
    assert left(connection) == 0
