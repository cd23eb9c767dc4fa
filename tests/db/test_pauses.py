"""Pauses: of a queue, of everything, of a kind, of a gate and of a key; with an end, and with a reason that is shown."""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from fastq import Args, AsyncClient, Client, Limit, admin
from fastq.admin import gates, pauses
from fastq.config import Config
from fastq.errors import LeaseLost, OptionError
from fastq.events import subscribe
from fastq.host import listener
from fastq.lead.chores.pauses import IDLE, LOCKED, Pauses
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.postgres import hints
from tests.db.jobs import CHANNEL, START, add, claim, claimed_ids, living
from tests.db.leases import run_until, site_on, take_over
from tests.helpers import wait_for

TARGETS = (
    {"queue": "default"},
    {"everything": True},
    {"kind": "nap"},
    {"gate": "mail-api"},
    {"gate": "mail-api", "key": 42},
    {"gate": "mail-api", "key": "42"},
)
SUBJECTS = (
    "queue 'default'",
    "everything",
    "kind 'nap'",
    "gate 'mail-api'",
    "gate 'mail-api' for key 42",
    "gate 'mail-api' for key \"42\"",
)


@dataclass
class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=2, by="account")]):
    account: int


@pytest.fixture
def operator(database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


@pytest.fixture
def site(database):
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


def keep(chore, site):
    run_until(chore, site, lambda pause: pause > 0)


def available(connection):
    return sorted(job for (job,) in connection.execute("select id from fastq.job where state = 'available'"))


def test_each_thing_is_paused_listed_and_resumed(operator):
    for target, subject in zip(TARGETS, SUBJECTS, strict=True):
        check_one(operator, target, subject)


def check_one(operator, target, subject):
    since = admin.pause(operator, target, datetime(2100, 1, 1, tzinfo=UTC), "the provider is down")
    assert admin.pause(operator, target, None, "again") == since  # it gets this end and reason
    assert admin.pause(operator, target, timedelta(hours=1), "the provider is down") == since

    (row,) = admin.list_pauses(operator)
    assert (row.subject, row.paused_at, row.reason) == (subject, since, "the provider is down")
    assert timedelta(minutes=59) < row.paused_until - since < timedelta(minutes=61)
    assert re.fullmatch(rf"{re.escape(subject)} is paused since .* UTC, until .* UTC: the provider is down", str(row))
    assert admin.subject_of(target) == subject
    assert admin.resume(operator, target)
    assert not admin.resume(operator, target)
    assert admin.list_pauses(operator) == []


def test_nothing_is_claimed_from_any_queue_while_everything_is_paused(connection, operator):
    first, second = add(connection), add(connection, queue="new")
    waits = add(connection, state="waiting", seq=None, waits_for="worker:nap")
    admin.pause(operator, {"everything": True}, None, "moving")

    assert claim(connection) == claim(connection, queue="new") == []
    assert connection.run("job_waiting", "default", ["nap"], 10, 1_000_000, [], 800) == []
    assert connection.run_one("job_claim_waiting", 1 << 32 | 1, waits, "default")[0] is None
    assert connection.run_one("job_claim_part", 1 << 32 | 1, "default", 0, 10_000, 1_000_000, 800)[0] is None
    assert [(row.name, row.pause_reason) for row in admin.list_queues(operator)] == [("default", "moving"), ("new", "moving")]
    assert connection.run("queue_unworked", 10) == []
    admin.pause_queue(operator, "new", None, "its own")
    assert [row.pause_reason for row in admin.list_queues(operator)] == ["moving", "its own"]

    admin.resume(operator, {"everything": True})
    assert claimed_ids(connection) == first
    assert claim(connection, queue="new") == []
    admin.resume_queue(operator, "new")
    assert claimed_ids(connection, queue="new") == second


WAKES = (
    ({"queue": "default"}, ["@pause"], ["default", "@waiting default"]),
    ({"everything": True}, ["@pause"], [""]),
    ({"kind": "nap"}, ["@pause"], ["@pause"]),
    ({"gate": "mail-api"}, ["@pause", "@gate"], ["@gate"]),
)


def test_each_pause_wakes_the_parts_that_it_concerns(operator, other, site):
    """All parts of a host look upon an empty hint."""
    other.listen(CHANNEL)
    for target, begun, ended in WAKES:
        admin.pause(operator, target)
        assert sorted(other.notifications(1.0)) == sorted(begun)
        admin.resume(operator, target)
        assert sorted(other.notifications(1.0)) == sorted(ended)

        admin.pause(operator, target, 0.001)
        list(other.notifications(1.0))
        run_until(Pauses(), site, lambda _: admin.list_pauses(operator) == [])
        assert sorted(other.notifications(1.0)) == sorted(ended)
    assert listener.read("@pause") == (hints.PAUSE, "")


def test_a_pause_ends_when_its_time_has_come_and_the_chore_rests_until_the_next(operator, site):
    for place, target in enumerate(TARGETS):
        admin.pause(operator, target, 0.001 if place % 2 else 5.0)
    admin.pause(operator, {"kind": "mail"})
    told = []
    unsubscribe = subscribe(lambda event: told.append(str(event)))
    chore, rest = Pauses(), []
    wait_for(lambda: rest.append(chore.run(site)) or len(admin.list_pauses(operator)) == 4, 5.0, "three to end")
    unsubscribe()

    assert sorted(line for line in told if line.startswith("pause.ended")) == [
        'pause.ended subject="gate \'mail-api\' for key \\"42\\""',
        "pause.ended subject=\"gate 'mail-api'\"",
        "pause.ended subject=everything",
    ]
    assert site.changed == 3
    assert 3.0 < chore.run(site) < 5.0
    for target in (TARGETS[0], TARGETS[2], TARGETS[4]):
        admin.resume(operator, target)
    assert chore.run(site) == IDLE
    assert Pauses().run(site) == IDLE


def test_a_pause_that_somebody_changes_right_now_holds_up_no_other(operator, site, other):
    admin.pause(operator, {"queue": "a"}, 0.001)
    admin.pause(operator, {"kind": "b"}, 0.001)
    other.execute("begin")
    other.execute("update fastq.queue set pause_reason = 'longer' where name = 'a'")

    wait_for(lambda: Pauses().run(site) == LOCKED and len(admin.list_pauses(operator)) == 1, 5.0, "the other to end")
    other.execute("commit")
    Pauses().run(site)
    assert admin.list_pauses(operator) == []


def test_while_nobody_leads_a_pause_stays_though_its_time_has_come_and_the_next_leader_ends_it(connection, operator, database):
    (job,) = add(connection)
    admin.pause_queue(operator, "default", 0.001, "a moment")
    late = "; but nobody leads now, so it waits for a fastq run that does"
    wait_for(lambda: admin.why_job(operator, job).endswith(f": a moment{late}"), 5.0, "its end")
    assert claim(connection) == []

    site = site_on(database, name="schema")
    take_over(connection, site.fence)
    with pytest.raises(LeaseLost):
        Pauses().run(site)  # a term that is over ends nothing
    assert claim(connection) == []
    Pauses().run(site_on(database, connection=site.connection, name="leader:other"))
    site.connection.close()
    assert claimed_ids(connection) == [job]


def test_a_paused_gate_and_a_paused_key_let_no_job_go_until_they_are_resumed(connection, client, operator, site):
    chore, site.woken = Gatekeeper(), True  # as by the hint of each change
    admin.pause(operator, {"gate": "mail-api", "key": 1}, None, "they asked")
    first, second, third = client.enqueue_many([MailArgs(1), MailArgs(2), MailArgs(1)])
    keep(chore, site)
    assert available(connection) == [second]
    assert client.why(first).startswith(f"job {first} waits because gate 'mail-api' for key 1 is paused since ")
    assert client.why(first).endswith(": they asked")

    admin.pause(operator, {"gate": "mail-api"})
    wait_for(lambda: keep(chore, site) or "" in chore._keeper._paused["mail-api"], 5.0, "the pause to be read")
    other = client.enqueue(MailArgs(3))
    keep(chore, site)
    assert available(connection) == [second]
    assert re.search("waits because gate 'mail-api' is paused since .* UTC$", client.why(other))
    admin.resume(operator, {"gate": "mail-api"})
    wait_for(lambda: keep(chore, site) or available(connection) == [second, other], 5.0, "the gate to go on")
    admin.resume(operator, {"gate": "mail-api", "key": 1})
    wait_for(lambda: keep(chore, site) or available(connection) == [first, second, third, other], 5.0, "the key to go on")


def test_a_new_leader_knows_pauses_and_numbers_before_it_lets_a_job_go(connection, client, operator, site):
    client.enqueue_many([MailArgs(1), MailArgs(2)])
    admin.pause(operator, {"gate": "mail-api", "key": 1})
    gates.set_gate(operator, "mail-api", 0)

    Gatekeeper().run(site)

    assert available(connection) == []


def test_jobs_of_a_paused_kind_are_put_to_waiting_though_a_process_knows_it(connection, operator):
    connection.run("process_beat", [1], [1], "h", "h:9:x1", "default", 15.0, "default", [], ["nap", "mail"], [None])
    nap, mail = add(connection), add(connection, kind="mail")
    admin.pause(operator, {"kind": "mail"}, None, "down")

    assert connection.run_one("job_rest", "default", ["nap"], *START, 100, None)[:4] == (2, 1, ["mail"], mail)
    assert living(connection, mail[0])["waits_for"] == "worker:mail"
    assert connection.run_one("waiting_known", None, 10, []) == ([], [])  # the leader leaves it there
    assert admin.why_job(operator, mail[0]).endswith(": down")
    (row,) = admin.list_waiting(operator)
    assert row.known
    assert re.fullmatch("kind 'mail' is paused since .* UTC: down", row.why)
    assert claimed_ids(connection) == nap
    admin.resume(operator, {"kind": "mail"})
    assert connection.run_one("waiting_known", None, 10, []) == (mail, ["default"])


def test_an_available_job_of_a_paused_kind_says_so_and_that_its_queue_is_paused_too(connection, operator):
    (job,) = add(connection)
    admin.pause(operator, {"kind": "nap"}, None, "down")
    assert re.fullmatch(f"job {job} waits because kind 'nap' is paused since .* UTC: down", admin.why_job(operator, job))
    admin.pause(operator, {"everything": True}, timedelta(days=1))
    everything = r"everything is paused since .* UTC, until .* UTC"
    assert re.fullmatch(f"job {job} waits because {everything}, and kind 'nap' is .*: down", admin.why_job(operator, job))


def test_both_clients_pause_in_the_transaction_of_the_caller_and_resume(database, client, operator, other):
    other.execute("begin")
    client.pause(queue="mails", until=60, reason="down", conn=other.raw)
    assert client.pauses() == []
    other.execute("commit")

    async def go_on():
        async with AsyncClient(database) as opened:
            seen = await opened.pauses()
            await opened.pause(gate="mail-api", key=42, until=datetime(2100, 1, 1, tzinfo=UTC))
            return seen, await opened.pauses(), await opened.resume(queue="mails"), await opened.resume(queue="mails")

    seen, both, first, second = asyncio.run(go_on())
    assert [(row.subject, row.reason) for row in seen] == [("queue 'mails'", "down")]
    assert {row.subject for row in both} == {"queue 'mails'", "gate 'mail-api' for key 42"}
    assert (first, second) == (True, False)
    assert client.resume(gate="mail-api", key=42)
    with pytest.raises(OptionError, match="expected one of"):
        client.pause()
    assert pauses.list_pauses(operator) == []
