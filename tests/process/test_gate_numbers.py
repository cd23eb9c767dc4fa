"""An operator's number of a gate in a running cluster: it holds for the jobs of each key, and is told."""

import pytest

from fastq import Client, Config, admin
from fastq.admin import gates
from tests.helpers import wait_for
from tests.process.limited import AT_MOST, Limited

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.limited:registry"


@pytest.fixture
def operator(database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


@pytest.fixture
def client(database):
    """Give a client."""
    with Client(database) as made:
        yield made


def told(jobs, what):
    """Return the ids of the jobs that told the witness so."""
    return {line.id for line in jobs.told(what)}


def test_a_closed_gate_lets_none_go_until_it_is_opened_and_then_as_many_as_the_operator_says(supervise, jobs, client, operator):
    gates.set_gate(operator, "accounts", 0)
    supervise(APP, queues="default=12")
    ids = client.enqueue_many([Limited(1, seconds=60)] * 20)
    wait_for(lambda: jobs.execute("select count(*) from fastq.gate_event") == [(0,)], what="the gatekeeper to hear of them")
    opens = "(fastq gates set accounts N opens it)"
    assert client.why(ids[0]) == f"job {ids[0]} waits at the gate 'accounts' for key 1, which is closed {opens}"
    assert told(jobs, "start 1") == set()

    gates.set_gate(operator, "accounts", AT_MOST + 2)
    jobs.wait_until_told("start 1", times=AT_MOST + 2)
    assert client.why(ids[-1]).endswith("at the gate 'accounts' for key 1: 5 of 5 admitted, behind 14 jobs")

    other = client.enqueue_many([Limited(2)] + [Limited(2, seconds=60)] * 20)
    jobs.wait_until_told("start 2", times=AT_MOST + 3)
    (row,) = gates.list_gates(operator)
    assert (row.state, row.at_most, row.defaults) == ("set", AT_MOST + 2, [AT_MOST])
    assert (row.keys, row.admitted, row.waiting) == (2, 2 * AT_MOST + 4, 30)
    assert (told(jobs, "start 1"), told(jobs, "start 2")) == ({*ids[:5]}, {*other[:6]})
    assert client.why(ids[0]).startswith(f"job {ids[0]} runs on ")
