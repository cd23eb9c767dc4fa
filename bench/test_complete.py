"""Ask how many completions a second one completer writes, with the archive and without it."""

import time
from dataclasses import replace

import pytest

from bench.pieces import Claimer
from fastq.postgres import db
from fastq.work.complete.completer import Completer
from fastq.work.shared.lane import Outbox

JOBS, ROUNDS = 20_000, 5
POLL = 0.0005  # s between two looks: 1 % of a round


@pytest.mark.parametrize("archive", [True, False], ids=["archive", "no archive"])
def test_complete(measured, size, config, connection, archive):
    config = replace(config, archive=archive)
    jobs = size(JOBS)
    claimer = Claimer(config, connection, jobs * (ROUNDS + 2))
    outbox, written = Outbox(), []
    completer = Completer(
        config, outbox, lambda: db.connect(config.database_url, role="completer", schema=config.schema), written.append
    )
    completer.thread.start()

    def claim():
        return (claimer.jobs(jobs, config.batch), sum(written) + jobs), {}

    def complete(some, total):
        outbox.jobs.extend(some)
        outbox.wake()
        while sum(written) < total:
            time.sleep(POLL)

    measured(jobs, complete, setup=claim, rounds=ROUNDS)
    completer.stopping = True
    outbox.wake()
    completer.thread.join()
    claimer.session.close()
