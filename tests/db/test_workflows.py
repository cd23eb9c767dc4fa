"""Workflows: how steps come to wait, who lets them go, that each end is told once, and that no step waits for ever."""

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Job, Unique
from fastq.admin.changes import cancel_jobs, delete_jobs, retry_jobs
from fastq.admin.workflows import Progress
from fastq.args.gates import Limit
from fastq.errors import LeaseLost, OptionError, WorkflowError
from fastq.events import subscribe
from fastq.jobs import deps
from fastq.lead.workflow.steward import Steward
from fastq.workflows.steps import Workflow, chain, group
from tests.db.jobs import CHANNEL, ERROR, archived, claim, claim_number, count, living
from tests.db.leases import site_on, take_over
from tests.helpers import wait_for

MINE = claim_number(1, 1)


@dataclass
class Do(Args, kind="do"):
    what: str = ""


@dataclass
class Mail(Args, kind="mail", gates=[Limit("api", at_most=2, by="account")]):
    account: int


@pytest.fixture
def site(database):
    """Give a leader of the schema."""
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


@pytest.fixture
def client(database):
    """Give a client."""
    with Client(database) as made:
        yield made


@pytest.fixture
def told():
    """Give the events of this process that the test causes."""
    heard = []
    unsubscribe = subscribe(heard.append)
    yield heard
    unsubscribe()


def turn(site, steward=None):
    """Run the chore until it has nothing to do for a while, and has looked at the whole log."""
    steward = steward or Steward()
    while (rest := steward.run(site)) < 1.0 or not steward._whole:
        time.sleep(rest)


def state_of(connection, job):
    row = living(connection, job) or archived(connection, job)
    return row and row["state"]


def states(connection, started):
    return [state_of(connection, job) for job in started.ids]


def complete(connection, jobs, output=None):
    """Claim jobs and complete them."""
    ids = claimed(connection, jobs)
    if output is None:
        connection.run("job_complete_tied_archive", ids, [MINE], CHANNEL)
    else:
        finish(connection, ids, "completed", output=output)


def discard(connection, jobs):
    ids = claimed(connection, jobs)
    finish(connection, ids, "discarded", error=ERROR)


def finish(connection, ids, state, *, error=None, output=None):
    many = len(ids)
    connection.run("job_finish", ids, [MINE] * many, [state] * many, [error] * many, [output] * many, CHANNEL)


def claimed(connection, jobs):
    """Claim all jobs that there are; among them must be these."""
    held = {id_ for (id_,) in connection.execute("select id from fastq.job where state = 'running'")}
    held |= {job.id for job in claim(connection, MINE, limit=100_000)}
    assert held >= set(jobs)
    return list(jobs)


def diamond():
    flow = Workflow("diamond")
    top = flow.add(Do("top"), name="top")
    left, right = flow.add(Do("left"), name="left", after=top), flow.add(Do("right"), name="right", after=top)
    flow.add(Do("end"), name="end", after=[left, right])
    return flow


def audited(site):
    """Audit all; return the steps that it repaired."""
    return site.write("workflow_audit", 0, -1, 100_000)[-1]


def test_steps_run_after_those_before_them_and_the_workflow_ends_with_the_last(client, connection, site):
    flow = client.enqueue_workflow(diamond())

    assert states(connection, flow) == ["available", "waiting", "waiting", "waiting"]
    complete(connection, [flow.jobs["top"]])
    turn(site)
    assert states(connection, flow) == ["completed", "available", "available", "waiting"]
    complete(connection, [flow.jobs["left"]])
    turn(site)
    assert state_of(connection, flow.jobs["end"]) == "waiting"
    complete(connection, [flow.jobs["right"]])
    turn(site)
    assert audited(site) is None
    assert client.workflow(flow.id).state is Progress.RUNNING
    complete(connection, [flow.jobs["end"]])
    turn(site)

    found = client.workflow(flow.id)
    assert (found.state, found.completed, found.steps, found.ended) == (Progress.COMPLETED, 4, 4, 4)
    assert client.wait_for_workflow(flow.id, timeout=5) == found
    assert [step.state for step in client.workflow_steps(flow.id)] == ["completed"] * 4
    assert count(connection, "workflow_event") == 0


ENDS = {  # a running step, and how it ends
    "a success": ("completed", lambda run, ids: run("job_complete_tied", ids, [MINE], CHANNEL)),
    "a success that is kept": ("completed", lambda run, ids: run("job_complete_tied_archive", ids, [MINE], CHANNEL)),
    "an output": ("completed", lambda run, ids: run("job_finish", ids, [MINE], ["completed"], [None], ["1"], CHANNEL)),
    "a failure": ("discarded", lambda run, ids: run("job_finish", ids, [MINE], ["discarded"], [ERROR], [None], CHANNEL)),
    "its worker": ("cancelled", lambda run, ids: run("job_finish", ids, [MINE], ["cancelled"], [None], [None], CHANNEL)),
    "a turn too late": (
        "cancelled",
        lambda run, ids: run("job_finish_late", ids, [MINE], ["cancelled"], [None], ["expired"], [False], CHANNEL),
    ),
    "a deadline": (
        "discarded",
        lambda run, ids: run("job_finish_late", ids, [MINE], ["discarded"], [ERROR], ["deadline"], [True], CHANNEL),
    ),
    "a rescue": ("discarded", lambda run, ids: run("job_rescue", *run.fence, None, "default", ids, [MINE], [1], CHANNEL, ERROR)),
    "a death": ("discarded", lambda run, ids: run("job_recover", ids, 0, 0, "default", ids, 1, 1, CHANNEL, ERROR, [], ERROR)),
}
ASKED = {  # the same for a step whose cancellation was asked for
    "a rescue": ENDS["a rescue"][1],
    "a death": ENDS["a death"][1],
    "a retry": lambda run, ids: run("job_retry", ids, [MINE], [1.0], [True], [ERROR], CHANNEL),
    "a crash of its process": lambda run, ids: run("job_crashed", ids, [MINE], [1.0], [ERROR], [ERROR], CHANNEL),
    "a release": lambda run, ids: run("job_release", ids, [MINE], CHANNEL),
    "new gates": lambda run, ids: run("job_bar", ids, [MINE], ['[["limit","api",42,1,2]]'], CHANNEL),
}
WAITING = {  # a step that does not run, and how it ends
    "an operator": lambda connection, client, job: cancel_jobs(connection, [job]),
    "a program": lambda connection, client, job: client.cancel(job),
    "a deletion": lambda connection, client, job: delete_jobs(connection, [job]),
}


class Run:
    """Run statements on a session, fenced ones with the fence of a leader."""

    def __init__(self, site):
        self.fence = site.fence
        self._run = site.connection.run_one

    def __call__(self, name, *params):
        return self._run(name, *params)


def behind(client):
    """Enqueue a step, one that runs after its success and one that runs after its end."""
    flow = Workflow("one")
    first = flow.add(Enqueue(Do(), max_attempts=1), name="first")
    flow.add(Do(), name="then", after=first)
    flow.add(Do(), name="ended", after=first.ended)
    return client.enqueue_workflow(flow)


def heard(connection, site, flow, state):
    """Assert that the end of the first step was told once, with this state, and has its consequences."""
    [told] = connection.execute("select step, state::text from fastq.workflow_event")
    assert told == (0, state)
    turn(site)
    assert audited(site) is None
    good = state == "completed"
    assert states(connection, flow)[1:] == ["available" if good else "cancelled", "available"]
    row = client_row(connection, flow)
    assert row == (3, int(good), (not good) + (state == "cancelled"), int(state == "discarded"))
    if not good:
        meta = archived(connection, flow.ids[1])["meta"]
        assert (meta["cause"], meta["because"]) == ("parent", [[flow.ids[0], "first", state]])


def client_row(connection, flow):
    return connection.execute("select steps, completed, cancelled, discarded from fastq.workflow where id = $1", flow.id)[0]


@pytest.mark.parametrize("end", ENDS)
def test_each_end_of_a_running_step_is_told_once(client, connection, site, end):
    flow = behind(client)
    ids = claimed(connection, flow.ids[:1])
    state, how = ENDS[end]

    how(Run(site), ids)
    how(Run(site), ids)

    heard(connection, site, flow, state)


@pytest.mark.parametrize("end", ASKED)
def test_each_end_of_a_step_that_was_asked_to_end_is_told_once(client, connection, site, end):
    flow = behind(client)
    ids = claimed(connection, flow.ids[:1])
    assert client.cancel(ids[0])

    ASKED[end](Run(site), ids)

    heard(connection, site, flow, "cancelled")


@pytest.mark.parametrize("end", WAITING)
def test_each_end_of_a_step_that_does_not_run_is_told_once(client, connection, site, end):
    flow = behind(client)

    WAITING[end](connection, client, flow.ids[0])

    heard(connection, site, flow, "cancelled")


def test_the_hint_wakes_the_steward_and_a_retry_is_no_end(client, connection, other, site):
    other.listen(CHANNEL)
    flow = behind(client)
    ids = claimed(connection, flow.ids[:1])
    connection.run("job_retry", ids, [MINE], [0.0], [True], [ERROR], CHANNEL)
    assert count(connection, "workflow_event") == 0
    complete(connection, flow.ids[:1])
    wait_for(lambda: "@workflow" in list(other.notifications(1.0)), what="the hint")


def test_a_chain_of_many_is_cancelled_to_its_end_with_the_nearest_causes_and_the_first(client, connection, site, told):
    flow = client.enqueue_workflow(chain(*[Do(str(n)) for n in range(300)]))

    discard(connection, flow.ids[:1])
    turn(site)

    assert states(connection, flow) == ["discarded"] + ["cancelled"] * 299
    because = archived(connection, flow.ids[-1])["meta"]["because"]
    assert because[0] == [flow.ids[-2], "298", "cancelled"]
    assert because[-1] == [flow.ids[0], "0", "discarded"]
    assert len(because) == 10
    assert client.workflow(flow.id).state is Progress.DISCARDED
    assert [event.fields["id"] for event in told if event.name == "workflow.ended"] == [flow.id]
    assert audited(site) is None


def test_callbacks_are_enqueued_once_each_when_they_are_due(client, connection, site):
    flow = Workflow("mails", on_success=Do("success"), on_finish=Mail(7), on_discard=Enqueue(Do("discard"), queue="bad"))
    parts = [flow.add(Do()) for _ in range(3)]
    assert len(parts) == 3
    flow = client.enqueue_workflow(flow)

    def called():
        rows = connection.execute("select args::text, state::text, queue::text, meta -> 'workflow' from fastq.job order by id")
        return [row[:3] for row in rows if row[3] == [flow.id]]

    discard(connection, flow.ids[:2])
    turn(site)
    bad = ('{"what":"discard"}', "available", "bad")
    assert called() == [bad]
    complete(connection, flow.ids[2:])
    turn(site)
    finish_ = ('{"account":7}', "waiting", "default")
    assert called() == [bad, finish_]

    assert client.retry_workflow(flow.id) == 2
    turn(site)
    assert client.workflow(flow.id).state is Progress.RUNNING
    complete(connection, flow.ids[:2])
    turn(site)
    assert called() == [bad, finish_, ('{"what":"success"}', "available", "default")]
    assert client.workflow(flow.id).state is Progress.COMPLETED


def test_after_a_retry_success_is_called_and_no_other_callback_once_more(client, connection, site):
    flow = Workflow("mails", on_success=Do("success"), on_finish=Do("finish"), on_discard=Do("discard"))
    flow.add(Do())
    flow.add(Do())
    flow = client.enqueue_workflow(flow)

    def called():
        """Run the callbacks that were enqueued; return which."""
        jobs = [job for job in claim(connection, MINE) if job.id not in flow.ids]
        connection.run("job_complete_tied_archive", [job.id for job in jobs], [MINE], CHANNEL)
        return [msgspec.json.decode(job.args)["what"] for job in jobs]

    complete(connection, flow.ids[:1])
    discard(connection, flow.ids[1:])
    turn(site)
    assert sorted(called()) == ["discard", "finish"]

    for how, callbacks in ((discard, []), (complete, ["success"])):
        assert client.retry_workflow(flow.id) == 1
        turn(site)
        how(connection, flow.ids[1:])
        turn(site)
        assert called() == callbacks


def test_a_callback_that_fails_is_no_failure_of_its_workflow_and_is_retried_alone(client, connection, site):
    flow = Workflow("mails", on_finish=Do("finish"))
    flow.add(Do())
    flow = client.enqueue_workflow(flow)
    complete(connection, flow.ids)
    turn(site)
    [callback] = claim(connection, MINE)
    discard(connection, [callback.id])
    turn(site)

    assert client.workflow(flow.id).state is Progress.COMPLETED
    assert client.retry_workflow(flow.id) == 0
    assert client.retry(callback.id)
    assert [job.id for job in claim(connection, MINE)] == [callback.id]


def test_a_step_waits_for_its_gates_and_its_delay_when_its_parents_have_ended(client, connection, site):
    flow = client.enqueue_workflow(chain(Do(), group(Mail(1), Enqueue(Do(), delay=60), Enqueue(Mail(2), delay=60))))

    assert states(connection, flow) == ["available", "waiting", "waiting", "waiting"]
    assert {living(connection, job)["waits_for"] for job in flow.ids[1:]} == {"workflow"}
    complete(connection, flow.ids[:1])
    turn(site)

    assert states(connection, flow)[1:] == ["waiting", "scheduled", "scheduled"]
    assert living(connection, flow.ids[1])["waits_for"] == '[["limit","api",1,1,2]]'
    assert connection.execute("select count(*) from fastq.gate_event where job = $1", flow.ids[1]) == [(1,)]
    due = connection.execute("select scheduled_at > now() + interval '50 s' from fastq.job where id = $1", flow.ids[2])
    assert due == [(True,)]


def test_jobs_are_added_to_a_workflow_that_runs_and_to_no_other(client, connection, site):
    flow = client.enqueue_workflow(chain(Do("a")))
    member = claimed(connection, flow.ids)

    more = Workflow("more")
    more.add(Do("c"), name="c", after=more.add(Do("b"), name="b"))
    added = client.add_to_workflow(flow.id, more, after=[0])
    with pytest.raises(WorkflowError, match="has a step 'b' already"):
        client.add_to_workflow(flow.id, more)
    with pytest.raises(WorkflowError, match="no step of this name"):
        client.add_to_workflow(flow.id, [Do()], after=["x"])
    late = client.add_to_workflow(flow.id, [Do("d")], after=["b"])

    assert states(connection, added) + states(connection, late) == ["waiting"] * 3
    complete(connection, member)
    turn(site)
    assert states(connection, added) == ["available", "waiting"]
    discard(connection, added.ids[:1])
    turn(site)
    assert states(connection, added) + states(connection, late) == ["discarded", "cancelled", "cancelled"]
    assert client.workflow(flow.id).steps == 4
    with pytest.raises(WorkflowError, match="has ended"):
        client.add_to_workflow(flow.id, [Do()])
    with pytest.raises(WorkflowError, match="no workflow 77"):
        client.add_to_workflow(77, [Do()])
    assert audited(site) is None


def test_a_step_that_is_added_behind_a_failed_one_is_cancelled(client, connection, site):
    flow = client.enqueue_workflow(group(Do("a"), Do("b")))
    discard(connection, flow.ids[:1])
    turn(site)

    added = client.add_to_workflow(flow.id, chain(Do("c"), Do("d")), after=[0])
    turn(site)

    assert states(connection, added) == ["cancelled", "cancelled"]
    assert archived(connection, added.ids[1])["meta"]["because"][-1] == [flow.ids[0], "0", "discarded"]
    assert audited(site) is None


def test_a_workflow_does_not_end_while_somebody_adds_to_it(client, connection, database, site):
    flow = client.enqueue_workflow(chain(Do("a")))
    with psycopg.connect(database) as mine:
        added = client.add_to_workflow(flow.id, [Do("b")], after=[0], conn=mine)
        complete(connection, flow.ids)
        steward = Steward()
        rest = steward.run(site)
        assert 0 < rest < 1.0  # it comes again soon
        assert count(connection, "workflow_event") == 1
        other = client.enqueue_workflow(chain(Do("x"), Do("y")))
        complete(connection, other.ids[:1])
        steward.run(site)
        assert state_of(connection, other.ids[1]) == "available"  # others go on
        mine.commit()

    turn(site, steward)
    assert states(connection, added) == ["available"]
    assert client.workflow(flow.id).state is Progress.RUNNING
    assert audited(site) is None


def test_a_workflow_is_part_of_the_callers_transaction(client, connection, database):
    with psycopg.connect(database) as mine:
        client.enqueue_workflow(diamond(), conn=mine)
        mine.rollback()
    assert [count(connection, f"workflow{part}") for part in ("", "_step", "_edge")] == [0, 0, 0]
    assert count(connection, "job") == 0


def test_a_job_that_somebody_has_locked_is_let_go_later_and_holds_up_nobody(client, connection, database, site):
    flow = client.enqueue_workflow(chain(Do("a"), group(Do("b"), Do("c"))))
    complete(connection, flow.ids[:1])
    steward = Steward()
    with psycopg.connect(database) as mine:
        mine.execute("select from fastq.job where id = %s for update", [flow.ids[1]])
        while not 0 < steward.run(site) < 1.0:
            pass
        assert states(connection, flow)[1:] == ["waiting", "available"]
    turn(site, steward)
    assert states(connection, flow)[1:] == ["available", "available"]


def test_a_leader_that_is_killed_in_the_middle_leaves_all_to_the_next(client, connection, site, monkeypatch):
    flow = Workflow("w", on_finish=Do("finish"))
    first = flow.add(Do())
    flow.add(Do(), after=first)
    flow = client.enqueue_workflow(flow)
    complete(connection, flow.ids[:1])
    for name in ("workflow_take", "workflow_reach", "workflow_resolve", "workflow_end", "workflow_go"):
        with monkeypatch.context() as patch:
            kill_at(patch, site, name)
            with pytest.raises(KeyboardInterrupt):
                Steward().run(site)
    turn(site)
    assert state_of(connection, flow.ids[1]) == "available"
    complete(connection, flow.ids[1:])
    with monkeypatch.context() as patch:
        kill_at(patch, site, "workflow_end", after=True)
        with pytest.raises(KeyboardInterrupt):
            Steward().run(site)
    assert client.workflow(flow.id).ended == 1  # undone
    turn(site)
    turn(site)
    assert client.workflow(flow.id).state is Progress.COMPLETED
    assert count(connection, "job") == 1


def kill_at(patch, site, name, *, after=False):
    """Have a statement of the site's session be cut off, before it or after it."""
    run = site.connection.run

    def cut(statement, *params):
        if statement == name and not after:
            raise KeyboardInterrupt
        rows = run(statement, *params)
        if statement == name:
            raise KeyboardInterrupt
        return rows

    patch.setattr(site.connection, "run", cut)


def test_a_term_that_is_over_changes_nothing(client, connection, site):
    flow = behind(client)
    complete(connection, flow.ids[:1])
    take_over(connection, site.fence)

    with pytest.raises(LeaseLost):
        Steward().run(site)

    assert count(connection, "workflow_event") == 1
    assert states(connection, flow)[1:] == ["waiting", "waiting"]


def test_a_late_commit_is_found(client, connection, database, site):
    flows = [behind(client) for _ in range(2)]
    claimed(connection, [flow.ids[0] for flow in flows])
    with psycopg.connect(database) as mine:
        mine.execute("delete from fastq.job where id = %s", [flows[0].ids[0]])
        mine.execute("insert into fastq.workflow_event (workflow, step, state) values (%s, 0, 'completed')", [flows[0].id])
        connection.run("job_complete_tied_archive", list(flows[1].ids[:1]), [MINE], CHANNEL)
        steward = Steward()
        turn(site, steward)
        assert states(connection, flows[1])[1:] == ["available", "available"]
        mine.commit()
    turn(site, steward)
    assert states(connection, flows[0])[1:] == ["available", "available"]


def test_a_cancelled_workflow_ends_and_takes_no_more_steps_until_it_is_retried(client, connection, site):
    flow = client.enqueue_workflow(chain(Do("a"), Do("b"), Do("c")))
    member = claimed(connection, flow.ids[:1])

    assert client.cancel_workflow(flow.id) == 3
    with pytest.raises(WorkflowError, match="was cancelled"):
        client.add_to_workflow(flow.id, [Do()])
    turn(site)
    assert client.workflow(flow.id).state is Progress.RUNNING
    connection.run("job_release", member, [MINE], CHANNEL)
    turn(site)
    assert client.workflow(flow.id).state is Progress.CANCELLED
    assert client.cancel_workflow(flow.id) == 0

    assert client.retry_workflow(flow.id) == 3
    turn(site)
    assert states(connection, flow) == ["available", "waiting", "waiting"]
    assert audited(site) is None
    for job in flow.ids:
        complete(connection, [job])
        turn(site)
    assert client.workflow(flow.id).state is Progress.COMPLETED


def about(told):
    """Return the events of workflows."""
    return [(event.name, {**event.fields}) for event in told if event.name.startswith("workflow.")]


def test_cancellations_and_retries_are_events_of_the_program_that_asks_for_them(client, connection, site, told):
    flow = client.enqueue_workflow(chain(Do("a"), Do("b"), Do("c")))
    assert client.retry_workflow(flow.id) == 0
    assert about(told) == []
    claimed(connection, flow.ids[:1])

    client.cancel_workflow(flow.id)
    connection.run("job_release", [flow.ids[0]], [MINE], CHANNEL)
    turn(site)
    assert client.cancel_workflow(flow.id) == 0
    client.retry_workflow(flow.id, "failed_and_downstream")

    assert about(told) == [
        ("workflow.cancelled", {"id": flow.id, "cancelled": 2, "asked": 1}),
        ("workflow.ended", {"id": flow.id, "name": "chain", "completed": 0, "cancelled": 3, "discarded": 0}),
        ("workflow.retried", {"id": flow.id, "jobs": 3, "what": "failed_and_downstream"}),
    ]


def test_the_steps_that_are_cancelled_because_of_others_are_counted_in_an_event_of_each_workflow(client, connection, site, told):
    flows = [client.enqueue_workflow(chain(*[Do() for _ in range(count)])) for count in (3, 5)]
    discard(connection, [flow.ids[0] for flow in flows])

    turn(site)

    cancelled = sorted(fields.items() for name, fields in about(told) if name == "workflow.steps_cancelled")
    assert [dict(fields) for fields in cancelled] == [{"id": flows[0].id, "steps": 2}, {"id": flows[1].id, "steps": 4}]


@pytest.mark.parametrize("what", ["failed", "failed_and_downstream"])
def test_a_retry_runs_the_failed_steps_and_those_behind_them_if_that_is_asked_for(client, connection, site, what):
    flow = Workflow("w")
    one, two = flow.add(Do()), flow.add(Do())
    both = flow.add(Do(), after=[one, two])
    flow.add(Do(), after=both)
    flow.add(Do(), after=[one.ended, two.ended])
    flow = client.enqueue_workflow(flow)
    discard(connection, flow.ids[:1])
    turn(site)
    assert states(connection, flow) == ["discarded", "running", "cancelled", "cancelled", "waiting"]

    assert client.retry_workflow(flow.id, what) == (1 if what == "failed" else 3)
    turn(site)
    rest = ["cancelled", "cancelled"] if what == "failed" else ["waiting", "waiting"]
    assert states(connection, flow) == ["available", "running", *rest, "waiting"]
    assert audited(site) is None
    complete(connection, flow.ids[1:2])
    turn(site)
    assert state_of(connection, flow.ids[4]) == "waiting"
    complete(connection, flow.ids[:1])
    turn(site)
    last = ["cancelled", "cancelled"] if what == "failed" else ["available", "waiting"]
    assert states(connection, flow)[2:] == [*last, "available"]
    assert audited(site) is None


def test_a_step_that_is_retried_by_hand_opens_its_workflow_again(client, connection, site):
    flow = Workflow("w", on_success=Do("success"))
    first = flow.add(Do())
    flow.add(Do(), after=first.ended)
    flow = client.enqueue_workflow(flow)
    discard(connection, flow.ids[:1])
    turn(site)
    complete(connection, flow.ids[1:])
    turn(site)
    assert client.workflow(flow.id).state is Progress.DISCARDED

    retry_jobs(connection, [flow.ids[0]])
    turn(site)
    assert client.workflow(flow.id).state is Progress.RUNNING
    assert audited(site) is None
    complete(connection, flow.ids[:1])
    turn(site)

    found = client.workflow(flow.id)
    assert (found.state, found.completed) == (Progress.COMPLETED, 2)
    assert count(connection, "job") == 1  # the callback
    assert audited(site) is None


def test_retention_and_deletion_of_finished_jobs_strand_no_step(client, connection, site):
    flow = client.enqueue_workflow(diamond())
    complete(connection, [flow.jobs["top"]], '{"rows":3}')
    connection.execute("delete from fastq.job_archive")
    turn(site)
    assert states(connection, flow)[1:] == ["available", "available", "waiting"]
    rows = client.deps(flow.id, 1)
    assert [tuple(row) for row in rows] == [("top", flow.jobs["top"], "completed", '{"rows":3}')]


def test_the_audit_repairs_what_would_wait_for_ever_and_reports_it(client, connection, site, told):
    flow = behind(client)
    gone = client.enqueue_workflow(diamond())
    connection.execute("delete from fastq.job where id = any ($1::bigint[])", [flow.ids[0]])  # by a stranger's hand
    connection.execute("update fastq.workflow_step set unmet = 5 where workflow = $1 and step = 3", gone.id)
    connection.execute("update fastq.workflow_step set unmet = 0 where workflow = $1 and step = 1", flow.id)

    steward = Steward()
    steward._audit_at = 0.0
    turn(site, steward)
    steward._audit_at = 0.0
    turn(site, steward)

    assert states(connection, flow)[1:] == ["cancelled", "available"]
    assert {(event.fields["id"], event.fields["step"]) for event in told if event.name == "workflow.repaired"} == {
        (flow.id, 0),
        (flow.id, 1),
        (gone.id, 3),
    }
    assert audited(site) is None


def test_ended_workflows_are_deleted_with_the_archive(client, connection, site):
    old, new = (client.enqueue_workflow(diamond()) for _ in range(2))
    for flow in (old, new):
        client.cancel_workflow(flow.id)
    turn(site)
    connection.execute("update fastq.workflow set ended_at = now() - interval '1 year' where id = $1", old.id)

    turn(site)

    assert client.workflow(old.id) is None
    assert connection.execute("select distinct workflow from fastq.workflow_edge") == [(new.id,)]
    assert [row.id for row in client.workflows(state="cancelled")] == [new.id]
    with pytest.raises(WorkflowError, match="no longer"):
        client.wait_for_workflow(old.id)


def test_a_wait_ends_with_an_error_when_its_time_is_over(client):
    flow = client.enqueue_workflow(diamond())
    with pytest.raises(TimeoutError, match="0 of 4 jobs have"):
        client.wait_for_workflow(flow.id, timeout=0.01)


def test_a_unique_step_is_refused(client, connection):
    with pytest.raises(OptionError, match="is unique"):
        client.enqueue_workflow(chain(Do(), Enqueue(Do(), unique=Unique())))
    assert count(connection, "workflow") == 0


def test_a_job_reads_the_jobs_before_it_by_name(monkeypatch):
    monkeypatch.setattr(deps, "_read", lambda workflow, step: [("fetch", 7, "completed", '{"n":1}')] if step == 2 else [])
    found = deps.Deps(1, 2)
    assert found["fetch"] == (7, "completed", {"n": 1})
    assert list(found) == ["fetch"]
    assert len(deps.Deps(1, 3)) == 0
    job = Job.of(Do())
    assert (job.workflow, job.workflow_step, dict(job.deps)) == (None, None, {})


def test_the_awaiting_client_does_the_same(database):
    async def run():
        async with AsyncClient(database) as client:
            flow = await client.enqueue_workflow(diamond())
            added = await client.add_to_workflow(flow.id, [Do()], after=["end"])
            assert [step.job for step in await client.workflow_steps(flow.id)] == [*flow.ids, *added.ids]
            assert await client.cancel_workflow(flow.id) == 5
            with pytest.raises(TimeoutError):
                await client.wait_for_workflow(flow.id, timeout=0.01)

    asyncio.run(run())


def test_a_large_workflow_takes_two_statements(client, connection, database, site):
    asked = []
    flow = chain(Do("first"), group(*[Do(str(n)) for n in range(2_000)]), Do("last"))
    with counted(asked, client):
        started = client.enqueue_workflow(flow)
    assert asked == ["workflow_begin", "workflow_add"]
    complete(connection, started.ids[:1])
    turn(site)
    complete(connection, started.ids[1:-1])
    turn(site)
    assert state_of(connection, started.ids[-1]) == "available"
    assert audited(site) is None


@contextmanager
def counted(asked, client):
    """Write down the statements of changes."""
    text = client._settings.text_for_one
    client._settings.text_for_one = lambda name: asked.append(name) or text(name)
    yield
    client._settings.text_for_one = text
