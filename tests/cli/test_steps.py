"""`fastq jobs signal`, and the records of steps that `fastq jobs show` prints."""

import json

import pytest

from tests.helpers import execute

pytestmark = pytest.mark.further


def test_a_signal_is_sent_once_and_shown_with_the_steps(on_database, database):
    execute(database, "insert into fastq.job (kind) values ('nap')")
    execute(
        database,
        "insert into fastq.job_step (job, sort, name, attempt, took, output) values (1, 'step', 'charge', 1, 0.25, '{\"a\": 1}')",
    )
    execute(database, "insert into fastq.job_step (job, sort, name, attempt, until) values (1, 'wait', 'approved', 1, now())")

    assert "job 1 was sent the signal 'approved'" in on_database("jobs", "signal", "1", "approved", '{"by": "ada"}')
    assert "job 1 had a signal 'approved' already, which stays" in on_database("jobs", "signal", "1", "approved", code=1)
    assert "job 4711 has ended, or does not exist" in on_database("jobs", "signal", "4711", "approved", code=1)
    assert "expected JSON" in on_database("jobs", "signal", "1", "other", "{", code=2)

    shown = on_database("jobs", "show", "1")
    assert "step charge: done" in shown
    assert 'attempt 1, 0.25 s: {"a": 1}' in shown
    assert "wait approved: waits for a signal" in shown
    assert "signal approved: was sent" in shown
    steps = json.loads(on_database("jobs", "show", "1", "--json"))["steps"]
    assert [(step["sort"], step["name"], step["output"]) for step in steps] == [
        ("step", "charge", {"a": 1}),
        ("wait", "approved", None),
        ("signal", "approved", {"by": "ada"}),
    ]
    assert json.loads(on_database("jobs", "signal", "1", "third", "1", "--json")) == {"id": 1, "name": "third", "sent": True}


def test_a_job_that_waits_for_a_signal_says_so(on_database, database):
    execute(database, "insert into fastq.job (kind, state, seq, waits_for) values ('nap', 'waiting', null, 'signal:approved')")

    assert "for the signal 'approved'" in on_database("jobs", "list")
    assert "waits for the signal 'approved', which client.signal sends" in on_database("jobs", "why", "1")
