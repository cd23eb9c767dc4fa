"""Ask how many completions a second one completer writes, with the archive and without it."""

import time
from array import array
from dataclasses import replace

import pytest

from bench.pieces import Claimer
from fastq.board.board import ENDED
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
    outbox, desk = Outbox(), memoryview(array("q", [0] * (ENDED + 1)))  # of no board: nobody reads it
    completer = Completer(config, outbox, lambda: db.connect(config.database_url, role="completer", schema=config.schema), desk)
    completer.thread.start()

    def claim():
        return (claimer.jobs(jobs, config.batch), completer.completed + jobs), {}

    def complete(some, total):
        outbox.jobs.extend(some)
        outbox.wake()
        while completer.completed < total:
            time.sleep(POLL)

    measured(jobs, complete, setup=claim, rounds=ROUNDS)
    completer.stopping = True
    outbox.wake()
    completer.thread.join()
    claimer.session.close()
