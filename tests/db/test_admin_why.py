"""Why a job is where it is, in one sentence: each reason that there is, and which comes first where there are several."""

import asyncio
import json
import re
from dataclasses import dataclass

import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Workflow, admin, chain, group
from fastq.admin import gates, why
from fastq.config import Config
from fastq.lead.workflow.steward import Steward
from tests.db.jobs import CHANNEL, ERROR, add, claim, claim_number
from tests.db.leases import lead, run_until, site_on
from tests.db.test_admin import finish
from tests.db.test_admin_gates import gate, put

AT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
PROCESS = """
    insert into fastq.process (id, host, pid, supervisor, queues, kinds, expires_at)
    values (7, 'web1', 42, 'web1:1:x', $1, $2, clock_timestamp() + make_interval(secs => $3))
"""


@pytest.fixture
def operator(database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


@pytest.fixture
def works(connection):
    """Give a function that has a process work queues, with workers for some kinds."""
    return lambda queues="default", kinds=("nap",), seconds=60.0: connection.execute(PROCESS, queues, list(kinds), seconds)


@pytest.fixture
def led(connection):
    """Have somebody lead the default domain and the schema."""
    lead(connection)
    lead(connection, name="schema")


@pytest.fixture
def says(operator):
    """Give a function that compares a job's sentence with a pattern, in which AT stands for a time and J for the id."""

    def compare(job_id, pattern):
        told = admin.why_job(operator, job_id)
        assert re.fullmatch(pattern.replace("J", str(job_id), 1).replace("AT", AT), told), told

    return compare


def test_a_scheduled_job_waits_for_its_time(connection, says):
    (job,) = add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01 00:00Z")

    says(job, "job J waits until 2100-01-01 00:00:00 UTC, the time for which it was enqueued")


def test_a_snoozed_job_waits_since_its_worker_said_so(connection, says):
    (job,) = add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01 00:00Z", attempted_at="2026-01-01")

    says(job, "job J waits until 2100-01-01 00:00:00 UTC, for its worker has snoozed it")


def test_a_job_that_failed_waits_for_its_next_attempt_and_tells_the_error(connection, says):
    errors = json.dumps([{"error": "ValueError: boom\nmore"}])
    (job,) = add(connection, state="retryable", seq=None, scheduled_at="2100-01-01 00:00Z", attempt=3, errors=errors)

    says(job, "job J waits until 2100-01-01 00:00:00 UTC for its next attempt: attempt 3 of 25 failed: ValueError: boom")


def test_a_job_that_is_due_waits_for_a_leader(connection, says):
    (job,) = add(connection, state="scheduled", seq=None, scheduled_at="2026-01-01 00:00Z")

    says(
        job,
        "job J is due since 2026-01-01 00:00:00 UTC, and a leader makes it available; but nobody leads now, so it waits for a "
        "fastq run that does",
    )
    lead(connection)
    says(job, "job J is due since 2026-01-01 00:00:00 UTC, and a leader makes it available")


def test_a_domains_leader_counts_for_the_queues_of_its_domain(connection, says):
    here, there = (
        add(connection, state="scheduled", seq=None, scheduled_at="2026-01-01", queue=queue)[0] for queue in ("here", "there")
    )
    lead(connection, name="leader:mail")
    connection.execute("update fastq.lease set queues = '{here}' where name = 'leader:mail'")

    says(here, "job J is due since AT, and a leader makes it available")
    says(there, "job J is due since AT, .*but nobody leads now.*")


def test_an_available_job_of_a_queue_that_nobody_works_waits_for_a_process(connection, says, works):
    (job,) = add(connection)
    works(queues="emails")
    connection.execute(PROCESS.replace("7,", "8,"), "default", [], 60.0)  # singletons alone
    connection.execute(PROCESS.replace("7,", "9,"), "default", ["nap"], -1.0)  # gone
    connection.execute(PROCESS.replace("(7, 'web1', 42", "(10, 'web1', 1"), "default", ["nap"], 60.0)  # a number held ready

    says(job, "job J waits because no living process works queue 'default'")


def test_an_available_job_tells_how_many_come_before_it(connection, says, works, monkeypatch):
    add(connection, 2)
    claim(connection, limit=1)
    (job,) = add(connection, priority=2)
    works()
    says(job, "job J is available, behind 1 job in queue 'default'")
    add(connection, 3)
    add(connection, 3, priority=2)
    add(connection, 3, queue="other")
    says(job, "job J is available, behind 4 jobs in queue 'default'")

    monkeypatch.setattr(why, "BEFORE", 3)
    says(job, r"job J is available, behind 3\+ jobs in queue 'default'")


def test_the_first_available_job_is_the_next_to_be_claimed(connection, says, works):
    job, _ = add(connection, 2)
    works()

    says(job, "job J is available, and the next to be claimed from queue 'default'")


def test_a_paused_queue_comes_before_the_other_reasons_of_its_jobs(connection, operator, says):
    (available,) = add(connection)
    (resting,) = add(connection, state="waiting", seq=None, waits_for="worker:nap")
    admin.pause_queue(operator, "default")

    for job in (available, resting):
        says(job, "job J waits because queue 'default' is paused since AT")


def test_a_job_waits_for_a_worker_of_its_kind(connection, says, works):
    (job,) = add(connection, state="waiting", seq=None, waits_for="worker:nap")
    says(job, "job J waits for a worker of its kind: no living process of queue 'default' has a worker for kind 'nap'")
    works()
    says(job, "job J waits for a worker of its kind: a living process has a worker for kind 'nap', and takes it when it has room")


def test_a_job_at_a_gate_tells_the_key_that_has_no_room_and_the_jobs_before_it(connection, says, led):
    mail = gate("mail-api", key=42, at_most=2)
    put(connection, mail, count=2, admitted=True)
    put(connection, gate("mail-api", key=43, at_most=2), count=5, admitted=True)
    first, _, last = put(connection, mail, count=3)

    says(first, "job J waits at the gate 'mail-api' for key 42: 2 of 2 admitted")
    says(last, "job J waits at the gate 'mail-api' for key 42: 2 of 2 admitted, behind 2 jobs")


def test_a_job_at_several_gates_tells_those_that_have_no_room(connection, says, led):
    (holder,) = put(connection, gate("cpu", weight=6, at_most=8), gate("gpu", key="a b", at_most=1), admitted=True)
    (job,) = put(connection, gate("cpu", weight=3, at_most=8), gate("disk", at_most=1), gate("gpu", key="a b", at_most=1))

    by = rf"admitted \(job {holder}\)"
    says(job, f"job J waits at the gate 'cpu': 6 of 8 {by}, 3 needed and at the gate 'gpu' for key \"a b\": 1 of 1 {by}")


def test_a_job_that_waits_for_its_turn_tells_which_job_has_it(connection, operator, says, led):
    stream = ["order", "stream", 7, 1, 1]
    (holder,) = put(connection, stream, admitted=True)
    put(connection, ["order", "stream", 8, 1, 1], admitted=True)
    gates.set_gate(operator, "stream", 5)
    (job,) = put(connection, stream)

    says(job, rf"job J waits at the gate 'stream' for key 7: 1 of 1 admitted \(job {holder}\)")
    assert [(row.sort, row.at_most, row.set_to) for row in gates.list_gates(operator)] == [("order", 1, 5)]


def test_a_job_that_waits_for_the_turn_of_its_tenant_says_so(connection, says, led):
    put(connection, ["fair", "tenants", "a", 1, 5], count=5, admitted=True)
    _, job = put(connection, ["fair", "tenants", "b", 1, 5, [2]], count=2)

    turns = "5 of 5 admitted of all keys, which take turns, behind 1 job"
    says(job, f"job J waits at the gate 'tenants' for key \"b\": {turns}")


def test_an_operators_number_is_the_one_that_is_told(connection, operator, says, led):
    (job,) = put(connection, gate("mail-api"))
    put(connection, gate("mail-api"), count=3, admitted=True)
    gates.set_gate(operator, "mail-api", 3)
    says(job, "job J waits at the gate 'mail-api': 3 of 3 admitted")

    gates.set_gate(operator, "mail-api", 0)
    says(job, r"job J waits at the gate 'mail-api', which is closed \(fastq gates set mail-api N opens it\)")


def test_a_job_with_room_at_its_gates_is_let_go_unless_nobody_leads(connection, says, monkeypatch):
    _, job = put(connection, gate("cpu", weight=30), gate("gpu", key=1), count=2)
    alone = "; but nobody leads now, so it waits for a fastq run that does"
    lead(connection)  # a domain, and not the schema
    says(job, f"job J waits at the gate 'cpu' and at the gate 'gpu' for key 1, where there is room, behind 1 job{alone}")
    lead(connection, name="schema")
    says(job - 1, "job J waits at the gate 'cpu' and at the gate 'gpu' for key 1, where there is room, and is let go next")


def test_counts_at_a_gate_are_bounded_and_say_so(connection, says, led, monkeypatch):
    put(connection, gate("mail-api"), count=30, admitted=True)
    *_, job = put(connection, gate("mail-api"), count=30)
    monkeypatch.setattr(why, "ADMITTED", 25)
    monkeypatch.setattr(why, "BEFORE", 5)

    says(job, r"job J waits at the gate 'mail-api': 25\+ of 20 admitted, behind 5\+ jobs")


def test_a_job_with_a_row_that_somebody_has_locked_says_so_as_long_as_it_would_start_now(connection, other, says, works, led):
    works()
    (job,) = add(connection)
    (due,) = add(connection, state="scheduled", seq=None, scheduled_at="2026-01-01")
    (later,) = add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01 00:00Z")
    waiting, _ = put(connection, gate("mail-api"), count=2)
    other.execute("begin")
    other.execute("select id from fastq.job where id <> $1 for update", waiting + 1)

    by = rf"; its row is locked by a transaction \(pid {other.backend_pid} in pg_stat_activity\) and waits for its end"
    says(job, f"job J is available, and the next to be claimed from queue 'default'{by}")
    says(due, f"job J is due since AT, and a leader makes it available{by}")
    says(later, "job J waits until 2100-01-01 00:00:00 UTC, the time for which it was enqueued")
    says(waiting, f"job J waits at the gate 'mail-api', where there is room, and is let go next{by}")
    says(waiting + 1, "job J waits at the gate 'mail-api', where there is room, behind 1 job")
    other.execute("commit")
    says(job, "job J is available, and the next to be claimed from queue 'default'")


def test_a_running_job_tells_where_since_when_and_whether_it_was_asked_to_end(connection, operator, says, works):
    (job,) = add(connection)
    works()
    claim(connection, 7 << 32 | 1)
    says(job, r"job J runs on web1 \(pid 42\) since AT, attempt 1 of 25")

    admin.cancel_jobs(operator, [job])
    says(job, r"job J runs on web1 \(pid 42\) since AT, attempt 1 of 25, and was asked to end")


def test_a_running_job_of_a_process_that_is_gone_is_given_back_by_a_leader(connection, says, works):
    (job,) = add(connection)
    claim(connection, 7 << 32 | 1)
    alone = "; but nobody leads now, so it waits for a fastq run that does"
    says(job, f"job J runs in a process that shows no life since AT, attempt 1 of 25, and a leader gives it back{alone}")
    works(seconds=-1.0)
    lead(connection)
    says(
        job, r"job J runs in a process that shows no life \(web1, pid 42\) since AT, attempt 1 of 25, and a leader gives it back"
    )


@pytest.mark.parametrize(
    ("state", "meta", "sentence"),
    [
        ("completed", None, "has completed at AT, in attempt 2"),
        ("cancelled", {"cause": "asked"}, "was cancelled at AT: somebody asked for that"),
        ("cancelled", {"cause": "worker"}, "was cancelled at AT: no such account"),
        ("cancelled", {"cause": "expired"}, "was cancelled at AT: it had not started by the time at which it expired"),
        (
            "discarded",
            {"cause": "deadline"},
            "was discarded at AT, after attempt 2 of 2: its deadline left no time for an attempt",
        ),
        ("discarded", {"cause": "failed"}, "was discarded at AT, after attempt 2 of 2: no such account"),
        ("discarded", {"cause": "crashed"}, "was discarded at AT, after attempt 2 of 2: its process died"),
        ("discarded", {"cause": "lost"}, "was discarded at AT, after attempt 2 of 2: its process showed no life any more"),
    ],
)
def test_a_finished_job_tells_how_it_ended(connection, says, state, meta, sentence):
    (job,) = add(connection, attempt=2, max_attempts=2, errors=json.dumps([{"error": "no such account"}]))
    finish(connection, [job], state, meta=json.dumps(meta) if meta else None)

    says(job, f"job J {sentence}")


MINE = claim_number(7, 1)


@dataclass
class Nap(Args, kind="nap"):
    """A step."""


@pytest.fixture
def flow(database, connection):
    """Give a function that enqueues a workflow, one that ends some of its jobs, and one that leads it on."""
    site = site_on(database, name="schema")
    with Client(database) as client:

        def end(state, *jobs):
            many = len(jobs)
            connection.run("job_finish", [*jobs], [MINE] * many, [state] * many, [ERROR] * many, [None] * many, CHANNEL)

        yield client.enqueue_workflow, end, lambda: run_until(Steward(), site, lambda rest: rest > 0.0)
    site.connection.close()


def test_a_step_names_the_first_jobs_that_it_waits_for_and_counts_the_others(connection, says, works, flow):
    enqueue, end, lead_on = flow
    works()
    wide = Workflow("wide")
    first = wide.add(Nap(), name="fetch")
    others = [wide.add(Enqueue(Nap(), delay=60)), wide.add(Nap(), name="then", after=first), *(wide.add(Nap()) for _ in range(3))]
    wide.add(Nap(), after=[first, *others])
    fetch, later, then, *rest, last = enqueue(wide).ids
    in_all = "in workflow 1"

    says(then, rf"job J waits for job {fetch} \(step fetch\), which is available, {in_all}")
    assert fetch in [job.id for job in claim(connection, MINE)]
    says(then, rf"job J waits for job {fetch} \(step fetch\), which runs, {in_all}")
    scheduled, waits = rf"job {later} \(step 1\), which is scheduled", rf"job {then} \(step then\), which waits itself"
    says(last, rf"job J waits for job {fetch} \(step fetch\), which runs, {scheduled}, {waits}, and 3 more, {in_all}")
    end("completed", fetch)
    says(then, rf"job J waits for job {fetch} \(step fetch\), which has ended, {in_all}")
    end("completed", *rest)
    lead_on()
    says(last, rf"job J waits for {scheduled}, and job {then} \(step then\), which is available, {in_all}")
    connection.execute("update fastq.workflow_step set unmet = 0, fate = 'go' where job = $1", last)
    says(last, "job J waits for a leader, which lets it go: all jobs before it in workflow 1 have ended")


def test_a_step_of_which_a_bounded_number_of_edges_was_looked_at_counts_the_others(connection, says, works, flow, monkeypatch):
    enqueue, end, lead_on = flow
    works()
    started = enqueue(chain(group(*[Nap() for _ in range(5)]), Nap()))
    claim(connection, MINE)
    end("completed", *started.ids[:2])
    lead_on()
    monkeypatch.setattr(why, "BEFORE", 2)

    says(started.ids[-1], "job J waits for 3 jobs in workflow 1")


def test_a_step_that_was_cancelled_because_of_others_tells_of_which(connection, says, works, flow):
    enqueue, end, lead_on = flow
    works()
    one, two, three, four, five = enqueue(chain(*[Nap() for _ in range(5)])).ids
    claim(connection, MINE)
    end("discarded", one)
    cancelled = "update fastq.workflow_step set because = $1::jsonb, fate = 'cancel' where job = $2"
    connection.execute(cancelled, f'[[{one}, "0", "discarded"]]', two)
    says(two, rf"job J waits for a leader, which cancels it in workflow 1: job {one} \(step 0\) was discarded")
    connection.execute("update fastq.workflow_step set because = null, fate = null")
    lead_on()

    as_step = "job J was cancelled at AT, as step"
    first = rf"job {one} \(step 0\) was discarded"
    second, third, fourth = (rf"job {job} \(step {step}\) was cancelled" for job, step in ((two, 1), (three, 2), (four, 3)))
    says(two, f"{as_step} 1 of workflow 1: {first}")
    says(four, f"{as_step} 3 of workflow 1: {third}, because {second}, because {first}")
    says(five, f"{as_step} 4 of workflow 1: {fourth}, because {third}, and so on, because {first}")
    connection.execute("truncate fastq.workflow, fastq.workflow_step")  # by retention
    says(two, f"{as_step} 1 of workflow 1: {first}")


def test_of_an_unknown_job_there_is_nothing_to_say(operator):
    assert admin.why_job(operator, 77) is None


def test_both_clients_say_the_same(database, connection, operator):
    (job,) = put(connection, gate("mail-api", key=42))

    async def ask():
        async with AsyncClient(database) as client:
            return [await client.why(number) for number in (job, 77, 2**70)], await client.get(job)

    with Client(database) as client:
        told = [client.why(number) for number in (job, 77, 2**70)]
        detail = client.get(job)

    assert told == [admin.why_job(operator, job), None, None]
    assert asyncio.run(ask()) == (told, detail)
    assert detail.gates == "the gate 'mail-api' for key 42"
    assert detail.waits_for == '[["limit","mail-api",42,1,20]]'
