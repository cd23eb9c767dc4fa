"""A workflow in a running cluster: the steps read the jobs before them, add to it, and its callback comes last."""

import pytest

from fastq import Client
from fastq.admin.workflows import Progress
from fastq.workflows.steps import Workflow
from tests.process.flows import AwaitingSum, Fetch, Sum

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.flows:registry"


def test_steps_read_the_outputs_of_those_before_them_and_add_to_their_workflow(supervise, jobs, database, monkeypatch):
    monkeypatch.setenv("FASTQ_DATABASE_URL", database)
    supervise(APP, queues="default=4")
    flow = Workflow("sums", on_success=Sum("called"))
    a, b = flow.add(Fetch("abc"), name="a"), flow.add(Fetch("defgh", more=3), name="b")
    flow.add(Sum(), name="sum", after=[a, b])
    flow.add(AwaitingSum(), name="awaited", after=[a, b.ended])

    with Client(database) as client:
        started = client.enqueue_workflow(flow)
        ended = client.wait_for_workflow(started.id, timeout=20)

        assert (ended.state, ended.completed) == (Progress.COMPLETED, 7)
        assert [jobs.fate(started.jobs[name]).output for name in ("sum", "awaited")] == [8, 8]
        jobs.wait_until_told("sum of []")
        told = [line.what for line in jobs.told()]
        assert sorted(told[:2]) == ["awaited ['a', 'b']", "sum of ['a', 'b']"]
        assert told[2:] == ["sum of []"]
