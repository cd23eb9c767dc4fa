"""Ask how many jobs a second one thread enqueues with enqueue_many, and from which size of a call on."""

import pytest

from fastq import Client
from fastq.bench.app import NoopArgs
from fastq.bench.load import fill

JOBS = 10_000


@pytest.mark.parametrize("at_once", [10, 100, 1_000, 10_000])
def test_enqueue_many(measured, size, config, connection, at_once):
    fill(connection, 0, paused=True)
    jobs = size(JOBS if at_once >= 1_000 else JOBS // 10)
    with Client(config=config) as client:

        def enqueue():
            for _ in range(0, jobs, at_once):
                client.enqueue_many([NoopArgs(number) for number in range(min(at_once, jobs))])

        measured(jobs, enqueue, rounds=5)
