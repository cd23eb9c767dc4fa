"""An operation beside a worker at work, and through the death of the leader that works through it."""

import signal

import pytest

from fastq import Client
from tests.db.jobs import session
from tests.db.test_search import put
from tests.helpers import wait_for

MANY = 20_000  # twenty chunks, each with its rest: the leader is killed between two of them

pytestmark = [pytest.mark.process, pytest.mark.further]


def test_each_job_is_changed_once_though_the_leader_is_killed_in_between_and_a_worker_is_at_work(supervise, jobs, database):
    connection = session(database)
    dead = put(connection, MANY, queue="aside")
    connection.close()
    leader = supervise()
    with Client(database) as client:
        naps = jobs.add_all("nap", [{} for _ in range(200)])
        operation = client.jobs.retry("state:discarded queue:aside", by="ada")
        wait_for(lambda: client.jobs.operation(operation.id).done > 0, 30.0, "the first chunk")
        leader.send(signal.SIGKILL)
        leader.wait()
        before = client.jobs.operation(operation.id)

        supervise()
        wait_for(lambda: client.jobs.operation(operation.id).state == "done", 40.0, "the end of the operation")
        ended = client.jobs.operation(operation.id)
        audit = client.jobs.audit()

    assert (before.state, before.done < MANY) == ("running", True)
    assert (ended.done, ended.skipped) == (MANY, {})
    assert [(row.by, row.verb, row.jobs) for row in audit] == [("ada", "retry", MANY)]
    rows = jobs.execute(
        "select count(*), count(distinct id), min(max_attempts), max(max_attempts) from fastq.job where queue = 'aside'"
    )
    assert rows == [(MANY, len(dead), 4, 4)]
    assert jobs.wait_for(naps[-1], "completed").attempt >= 1
