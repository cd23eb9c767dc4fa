"""Ask how many jobs a second one thread enqueues by COPY."""

from fastq import Client
from fastq.bench.app import NoopArgs
from fastq.bench.load import fill

JOBS = 50_000


def test_enqueue_copy(measured, size, config, connection):
    fill(connection, 0, paused=True)
    jobs = size(JOBS)
    with Client(config=config) as client:
        measured(jobs, lambda: client.enqueue_copy(NoopArgs(number) for number in range(jobs)), rounds=5)
