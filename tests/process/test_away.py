"""A host that was frozen for longer than its rows live starts nothing of what it had claimed."""

import os
import signal

import pytest

from fastq.postgres import db
from tests.db.jobs import add
from tests.helpers import freeze, wait_for
from tests.process.threads import OPEN, TOLD, working

pytestmark = pytest.mark.process
WAITING = "select 1 from pg_stat_activity where application_name = 'fastq producer' and wait_event_type = 'Lock'"


def test_a_host_that_thaws_starts_nothing_that_was_done_elsewhere_meanwhile(supervise, jobs, tmp_path):
    gate = tmp_path / "gate"
    settings = {"prefetch": 10, "process_ttl": 2, "beat_interval": 0.5}
    frozen = supervise(queues="default=1", lead="off", **settings)
    jobs.add_all("nap", [{"seconds": 0.001}] * 300)  # a pace: it claims ahead
    jobs.wait_until_told("end", times=300)
    with jobs.connection.transaction():
        held = jobs.add("gated", gate=str(gate))
        others = jobs.add_all("nap", [{}] * 20)
    for id_ in (held, *others):
        jobs.wait_for(id_, "running")
    pids = [frozen.pid, *frozen.descendants]
    for pid in pids:
        freeze(pid)
    try:
        other = supervise(queues="default=4", **settings)
        for id_ in others:
            jobs.wait_for(id_, "completed", timeout=30)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    frozen.wait_until_it_says("process.away")
    gate.touch()
    jobs.wait_until_none_is_left()
    frozen.wait_until_it_says("ownership.lost", times=2)  # those that it has let go of, and the one that it executed

    assert "handed_back=20" in frozen.said
    assert [len(jobs.told("start", id_)) for id_ in others] == [1] * 20
    assert {jobs.fate(id_).attempt for id_ in others} == {2}
    for supervisor in (frozen, other):
        assert supervisor.stop()[0] == 0


def test_what_was_claimed_before_the_gap_and_comes_after_it_is_let_go_of_too(database, events):
    TOLD.clear()
    OPEN.clear()
    connection, locking = (db.connect(database, role="test") for _ in range(2))
    with working(database, database, slots=1, batch=4, prefetch=10) as (producer, cursor):
        add(connection, 40, kind="hold", args='{"hold": false}')  # a pace: it claims ahead
        cursor.wakes += 1
        producer.wake()
        wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], what="the jobs to end")
        locking.execute("begin")
        ids = add(locking, 4, kind="hold")
        locking.execute("lock table fastq.job in share mode")
        cursor.wakes += 1
        producer.wake()
        wait_for(lambda: connection.execute(WAITING), what="a claim to wait for the lock")
        producer._around.away.times += 1  # as the main thread does when it thaws
        locking.execute("commit")

        away = wait_for(lambda: [event for event in events if event.name == "process.away"], what="the jobs to be let go of")
        assert 1 <= away[0].fields["handed_back"] <= len(ids)
        OPEN.set()
        wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], what="the jobs to end")
        assert sorted(TOLD)[-4:] == ids
    assert connection.execute("select count(*) from fastq.job_archive where attempt = 1") == [(44,)]
    connection.close()
    locking.close()
