"""A job comes to the same end in a test as in a worker process: the table of tests/process/test_ways.py, by `drain`."""

from datetime import UTC, datetime

import pytest

from fastq import Client
from fastq.testing import Jobs, prepare
from tests.helpers import execute
from tests.process.test_ways import ENDS
from tests.process.ways import WAYS, registry

PAST = datetime(2020, 1, 1, tzinfo=UTC)
TIMEOUTS = {"late"}  # no watchdog interrupts a job in a test


@pytest.fixture
def jobs(module_database):
    prepare(module_database)
    execute(module_database, "create table if not exists effect (job bigint)")
    made = Jobs(registry, module_database)
    yield made
    made.close()


@pytest.mark.parametrize("way", WAYS)
def test_what_a_job_does_has_the_same_end_in_a_test(jobs, way):
    kind = registry.workers[way].kind.type
    with Client(config=jobs.config) as client:
        ids = {what: client.enqueue(kind(what=what), max_attempts=2) for what in ENDS if what not in TIMEOUTS}
        expired = client.enqueue(kind(what="value"), expires=PAST)

        jobs.drain(until=1, raising=False)

        for what, number in ids.items():
            state, attempt, error = ENDS[what]
            detail = client.get(number)
            assert (detail.state, detail.attempt) == (state, attempt), what
            assert error in (detail.errors[-1]["error"] if detail.errors else ""), what
        assert client.get(ids["value"]).output == {"kind": way}
        assert client.get(ids["transaction"]).output == "paid"
        assert execute(client.config.database_url, "delete from effect returning job") == [(ids["transaction"],)]
        assert client.progress(ids["progress"]).fraction == 0.5
        assert (client.get(expired).state, client.get(expired).attempt) == ("cancelled", 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_step_has_the_same_end_in_a_test(jobs, way):
    with Client(config=jobs.config) as client:
        number = client.enqueue(registry.workers[way].kind.type(what="step"), max_attempts=1)
        jobs.drain(raising=False)

        detail = client.get(number)
    if "batch" in way:
        assert "has no steps" in detail.errors[0]["error"]
    else:
        assert detail.output == 2
