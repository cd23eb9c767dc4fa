"""`fastq workflows`: what it draws, and what it tells of a change."""

import json
from dataclasses import dataclass

import pytest

from fastq import Args, Client, Workflow
from tests.helpers import execute

pytestmark = pytest.mark.further


@dataclass
class DoArgs(Args, kind="do"):
    pass


@pytest.fixture
def started(database):
    """Give a workflow of three steps, of which the first has been discarded."""
    flow = Workflow("import")
    fetch = flow.add(DoArgs(), name="fetch")
    flow.add(DoArgs(), after=fetch)
    flow.add(DoArgs(), name="tell", after=fetch.ended)
    with Client(database) as client:
        return client.enqueue_workflow(flow)


def discard(database, started):
    """Have the first step discarded and the second cancelled for it, as the leader's chore writes that."""
    first, second, _ = started.ids
    columns = "id, kind, queue, priority, attempt, max_attempts, crashes, args, meta"
    execute(
        database,
        f"with gone as (delete from fastq.job where id = any (%s) returning {columns}) "
        f"insert into fastq.job_archive ({columns}, state, created_at, finalized_at) "
        "select *, case when id = %s then 'discarded' else 'cancelled' end::fastq.state, now(), now() from gone",
        [first, second],
        first,
    )
    execute(
        database,
        "update fastq.workflow_step set passed = true, because = case step when 1 then %s::jsonb end, "
        "state = case step when 0 then 'discarded' else 'cancelled' end::fastq.state where step < 2",
        json.dumps([[first, "fetch", "discarded"]]),
    )
    execute(database, "update fastq.workflow set discarded = 1, cancelled = 1")


def test_a_workflow_is_listed_with_its_counts(on_database, started):
    head, row = on_database("workflows", "list").splitlines()

    assert head.split() == ["id", "name", "state", "steps", "completed", "cancelled", "discarded", "begun", "ended"]
    assert row.split()[:7] == [str(started.id), "import", "running", "3", "0", "0", "0"]
    (told,) = json.loads(on_database("workflows", "list", "--json", "--state", "running"))
    assert (told["name"], told["state"], told["steps"], told["ended_at"]) == ("import", "running", 3, None)
    assert on_database("workflows", "list", "--state", "completed") == ""


def test_a_workflow_is_drawn_with_what_has_failed(on_database, database, started):
    discard(database, started)
    first, second, third = started.ids

    head, *lines = on_database("workflows", "show", started.id, PYTHONIOENCODING="utf-8").splitlines()
    assert head.startswith(f"workflow {started.id} 'import': running, 2 of 3 ended, begun ")
    assert lines == [
        "",
        f"✗    fetch  discarded, job {first}",
        "├─╮",
        f"✗ │  do     cancelled, job {second}",
        f"  ○  tell   waiting, job {third}; however fetch ends",
        "",
        f"job {first} (fetch) was discarded: fastq jobs show {first}",
        "1 job cancelled because of it",
    ]
    plain = on_database("workflows", "show", started.id, PYTHONIOENCODING="ascii").splitlines()
    assert plain[2:4] == [f"x    fetch  discarded, job {first}", "+-+"]
    told = json.loads(on_database("workflows", "show", started.id, "--json"))
    assert [step["state"] for step in told["of"]] == ["discarded", "cancelled", "waiting"]
    assert told["of"][1]["because"] == [[first, "fetch", "discarded"]]


def test_failed_jobs_of_a_workflow_run_once_more(on_database, database, started):
    discard(database, started)

    assert on_database("workflows", "retry", started.id, "--downstream") == f"workflow {started.id}: 2 jobs to run once more\n"
    assert json.loads(on_database("workflows", "retry", started.id, "--json")) == {"workflow": started.id, "jobs": 0}


def test_a_workflow_is_cancelled(on_database, started):
    assert on_database("workflows", "cancel", started.id) == f"workflow {started.id}: 3 jobs cancelled, or asked to end\n"
    assert "cancellation asked for" in on_database("workflows", "show", started.id)


def test_a_step_that_waits_for_those_before_it_says_so_wherever_it_is_looked_at(on_database, started):
    first, second, third = started.ids
    told = "for the jobs before it in its workflow"

    assert [line.endswith(f"  {told}") for line in on_database("jobs", "list").splitlines()[1:]] == [True, True, False]
    assert f"\nwaits     {told}" in on_database("jobs", "show", second)
    assert on_database("jobs", "why", third).startswith(f"job {third} waits for job {first} (step fetch), which is available")


@pytest.mark.parametrize("action", ["show", "retry", "cancel"])
def test_a_workflow_that_is_not_there_is_named(on_database, action):
    assert "there is no workflow 7, or no longer" in on_database("workflows", action, 7, code=1)


def test_without_workflows_it_says_how_one_comes_to_be(fastq, database):
    told = fastq("workflows", "list", FASTQ_DATABASE_URL=database)

    assert (told.returncode, told.stdout) == (0, "")
    assert "client.enqueue_workflow(...) makes one" in told.stderr
