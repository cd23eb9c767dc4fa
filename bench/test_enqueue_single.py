"""Ask how many jobs a second one thread enqueues, each in a transaction of its own.

Mostly a question to the disk: each commit waits for it.
"""

import pytest

from fastq import Client
from fastq.bench.app import NoopArgs
from fastq.bench.load import fill

JOBS = 500


def test_enqueue_single(measured, size, config, connection):
    fill(connection, 0, paused=True)
    jobs = size(JOBS)
    with Client(config=config) as client:

        def enqueue():
            for number in range(jobs):
                client.enqueue(NoopArgs(number))

        measured(jobs, enqueue)


@pytest.mark.parametrize("together", [10, 100])
def test_enqueue_single_in_a_transaction_of_the_callers(measured, size, config, connection, together):
    fill(connection, 0, paused=True)
    jobs = size(JOBS)
    with Client(config=config) as client:

        def enqueue():
            for _ in range(0, jobs, together):
                with connection.raw.transaction():
                    for number in range(together):
                        client.enqueue(NoopArgs(number), conn=connection.raw)

        measured(jobs, enqueue)
