"""Ending the sessions of a dead process: what they had under way is decided before its jobs are looked for."""

import threading

import psycopg
import pytest

from fastq.postgres import db
from tests.db.jobs import add, claim, claim_number, living, session
from tests.helpers import execute, wait_for


def end(connection, *pids):
    return connection.run_one("session_end", list(pids), 2_000)


def refused(connection, statement):
    """Return the error of a statement."""
    with pytest.raises(db.Error) as caught:
        connection.execute(statement)
    return caught.value


def test_a_session_of_ours_is_gone_when_the_statement_returns(connection, database):
    victim = session(database)

    assert end(connection, victim.backend_pid) == (1, 0)

    assert connection.execute("select from pg_stat_activity where pid = $1", victim.backend_pid) == []
    victim.close()


def test_a_claim_under_way_is_undone(connection, database):
    (job_id,) = add(connection)
    victim = session(database)
    victim.execute("begin")
    claim(victim, claim_number(1, 1))

    end(connection, victim.backend_pid)

    assert living(connection, job_id)["state"] == "available"
    victim.close()


def test_a_session_that_waits_for_a_lock_is_ended_too(connection, other, database):
    (job_id,) = add(connection)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", job_id)
    victim = session(database)
    errors = []
    victims = threading.Thread(target=lambda: errors.append(refused(victim, "update fastq.job set crashes = 9")))
    victims.start()
    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
    wait_for(lambda: execute(database, waiting, victim.backend_pid), what="the victim to wait")

    assert end(connection, victim.backend_pid) == (1, 0)

    victims.join(5.0)
    assert isinstance(errors[0], db.Lost)
    other.execute("rollback")
    assert living(connection, job_id)["crashes"] == 0
    victim.close()


def test_sessions_of_others_are_left_alone_though_their_pid_is_given(connection, database):
    with psycopg.connect(database, application_name="someone else") as innocent:
        assert end(connection, innocent.info.backend_pid, 2**22 + 1) == (0, 0)
        assert innocent.execute("select 1").fetchone() == (1,)
