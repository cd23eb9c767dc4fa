"""How much a process claims: what its executors can run, and no more ids than its ring can show."""

import time

from fastq.config import Config
from fastq.postgres import db
from fastq.work.claim.producer import Producer
from tests.db.jobs import add
from tests.helpers import wait_for
from tests.process.threads import OPEN, TOLD, working

SECONDS = 0.5  # s
CALLS = 2  # by the executors, which run dry
POLL = 30.0  # s


def test_a_small_batch_leaves_no_executor_idle(database):
    TOLD.clear()
    OPEN.clear()
    with db.connect(database, role="test").raw as raw:
        ids = add(db.adopt(raw, Config()), 16, kind="hold")
    with working(database, database, slots=16, batch=1):
        wait_for(lambda: sorted(TOLD) == ids, 5.0, "all executors to work")


def test_a_producer_rests_while_its_ring_is_full_and_is_called_when_there_is_room(database, monkeypatch):
    rounds = []
    looks = Producer._round
    monkeypatch.setattr(Producer, "_round", lambda producer: rounds.append(1) or looks(producer))
    TOLD.clear()
    with db.connect(database, role="test").raw as raw:
        connection = db.adopt(raw, Config())
        add(connection, 40, kind="hold", args='{"hold": false}')
        connection.execute("begin")
        connection.execute("lock table fastq.job_archive")
        with working(database, database, slots=2, batch=1, poll_interval=POLL):  # the poll comes too late for all that follows
            wait_for(lambda: len(TOLD) == 12, 5.0, "the ring to be full")
            before = len(rounds)
            time.sleep(SECONDS)
            assert len(rounds) - before <= CALLS
            assert len(TOLD) == 12
            connection.execute("commit")
            wait_for(lambda: len(TOLD) == 40, POLL / 2, "the others to run")
