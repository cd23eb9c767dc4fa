"""Rates on a real database: how many start, who is asked, what a 429 and a spend do, and what a new leader knows."""

import asyncio
from dataclasses import dataclass

import pytest

from fastq import Args, AsyncClient, Client, Rate
from fastq.errors import OptionError
from fastq.events import subscribe
from fastq.lead.gate import gate_log, gatekeeper
from fastq.lead.gate.gatekeeper import Gatekeeper
from tests.db.jobs import add, archived, claim_number, claimed_ids, living
from tests.db.leases import site_on

MINE = claim_number(1, 1)
API = Rate("api", at_most=1, per=3_600, burst=2, by="account")


@dataclass
class Call(Args, kind="call", gates=[API]):
    account: int


@dataclass
class Ping(Args, kind="ping", gates=[Rate("ping", at_most=1, per=3_600, over="drop")]):
    text: str = ""


@dataclass
class Heavy(Args, kind="heavy", gates=[Rate("tokens", at_most=100, per=60, weight="tokens", burst=50)]):
    tokens: int


class Clock:
    """Stands for the module `time` in the chore: its hours pass when the test says so."""

    def __init__(self):
        self.now = 1_000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """Give the time of the gatekeeper, so that no test waits for hours."""
    made = Clock()
    for module in (gatekeeper, gate_log):
        monkeypatch.setattr(module, "time", made)
    return made


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


def turn(chore, site, clock, hours=0.0):
    """Let hours pass, and run the chore until it rests; return the seconds that it wants to rest."""
    clock.now += 1 + 3_600 * hours
    for _ in range(100):
        rest = chore.run(site)
        if rest > 0.2:  # while a job has not started it is asked for again each quarter of a second
            return rest
        clock.now += rest
    raise AssertionError("the chore comes to no rest")


def let_go(connection):
    return [job for (job,) in connection.execute("select job from fastq.gate_permit order by job")]


def test_an_entry_of_a_rate_has_its_time_and_burst(client, connection):
    client.enqueue(Call(42))
    client.enqueue(Ping())

    assert living(connection, 1)["waits_for"] == '[["rate","api",42,1,1,[3600,2]]]'
    assert living(connection, 2)["waits_for"] == '[["rate","ping","",1,1,[3600,0,"drop"]]]'


@pytest.mark.parametrize(
    "options",
    [{"per": 0.5}, {"per": "60"}, {"per": True}, {"per": 60, "burst": -1}, {"per": 60, "burst": 1.5}, {"per": 60, "over": "no"}],
)
def test_an_option_that_a_rate_cannot_have_is_refused_with_the_rule(options):
    with pytest.raises(OptionError, match=r"Rate\('api'\): .*expected"):
        Rate("api", at_most=1, **options)


def test_jobs_are_let_go_one_by_one_once_the_bucket_is_empty_and_a_burst_after_a_pause(client, site, connection, clock):
    ids = client.enqueue_many([Call(1)] * 9)
    chore = Gatekeeper()
    turn(chore, site, clock)
    assert let_go(connection) == []  # a term begins with empty buckets

    turn(chore, site, clock, hours=1.01)
    assert let_go(connection) == ids[:1]
    claimed_ids(connection, MINE, limit=100)
    turn(chore, site, clock, hours=1.01)
    assert let_go(connection) == ids[:2]
    claimed_ids(connection, MINE, limit=100)
    connection.execute("update fastq.job set waits_for = null, state = 'scheduled' where state = 'waiting'")
    turn(chore, site, clock)
    turn(chore, site, clock, hours=9)
    connection.execute("delete from fastq.job where state = 'scheduled'")
    client.enqueue_many([Call(1)] * 9)
    turn(chore, site, clock)
    assert len(let_go(connection)) == 2 + 3


def test_while_no_process_is_there_no_more_are_let_go_than_one_bucket(client, site, connection, clock):
    ids = client.enqueue_many([Call(1)] * 9)
    chore = Gatekeeper()
    turn(chore, site, clock)
    for _ in range(12):
        clock.now += 3_600
        for _ in range(5):
            clock.now += chore.run(site)
    assert let_go(connection) == ids[:3]

    claimed_ids(connection, MINE, limit=100)
    turn(chore, site, clock)
    assert let_go(connection) == ids[:3]
    turn(chore, site, clock, hours=1.01)
    assert let_go(connection) == ids[:4]


def test_a_new_term_knows_the_jobs_that_have_not_started(client, site, connection, clock):
    ids = client.enqueue_many([Call(1)] * 9)
    first = Gatekeeper()
    turn(first, site, clock)
    clock.now += 3_600 * 5
    for _ in range(5):
        clock.now += first.run(site)
    assert let_go(connection) == ids[:3]

    second = Gatekeeper()
    clock.now += 1
    for _ in range(4):
        clock.now += second.run(site)
    clock.now += 3_600 * 5
    for _ in range(4):
        clock.now += second.run(site)
    assert let_go(connection) == ids[:3]


def test_a_429_gives_the_job_back_and_holds_its_key_up_also_for_the_next_leader(client, site, connection, clock):
    ids = client.enqueue_many([Call(1), Call(1), Call(2)])
    chore = Gatekeeper()
    turn(chore, site, clock)
    turn(chore, site, clock, hours=1.01)
    assert let_go(connection) == [ids[0], ids[2]]
    claimed_ids(connection, MINE, limit=100)

    connection.run("job_rate_limited", [ids[0]], [MINE], [36_000.0], None)
    row = living(connection, ids[0])
    assert (row["state"], row["attempt"], row["seq"]) == ("waiting", 0, None)
    turn(chore, site, clock, hours=3)
    assert let_go(connection) == [ids[2]]
    ((gate, key),) = connection.execute("select gate, key from fastq.gate_debt")
    assert (gate, key) == ("api", "1")
    second = Gatekeeper()
    turn(second, site, clock)
    turn(second, site, clock, hours=8)
    assert let_go(connection) == [ids[2]]
    turn(second, site, clock, hours=3.2)
    assert let_go(connection) == [ids[0], ids[2]]


def test_a_429_that_no_leader_has_heard_is_known_to_the_next(client, site, connection, clock):
    (job,) = client.enqueue_many([Call(1)])
    turn(Gatekeeper(), site, clock)
    chore = Gatekeeper()
    turn(chore, site, clock)
    turn(chore, site, clock, hours=1.01)
    claimed_ids(connection, MINE, limit=100)
    connection.run("job_rate_limited", [job], [MINE], [36_000.0], None)

    second = Gatekeeper()
    turn(second, site, clock)
    turn(second, site, clock, hours=8)
    assert let_go(connection) == []


def test_a_job_without_a_rate_that_met_a_429_is_run_again_after_the_time(client, connection):
    add(connection)
    (job,) = claimed_ids(connection, MINE)

    connection.run("job_rate_limited", [job], [MINE], [60.0], None)

    row = living(connection, job)
    assert (row["state"], row["attempt"], row["waits_for"]) == ("scheduled", 0, None)


def test_a_spend_has_the_jobs_wait_and_other_keys_go(client, site, connection, clock, database):
    chore = Gatekeeper()
    turn(chore, site, clock)
    clock.now += 3_600 * 9
    client.spend(API, 1, weight=4)

    async def spend():
        async with AsyncClient(database) as own:
            await own.spend(API, 1)

    asyncio.run(spend())
    ids = client.enqueue_many([Call(1), Call(2)])
    turn(chore, site, clock)
    assert let_go(connection) == [ids[1]]
    turn(chore, site, clock, hours=1.01)
    assert let_go(connection) == [ids[1]]
    turn(chore, site, clock, hours=2.01)
    assert let_go(connection) == ids


@pytest.mark.parametrize(("key", "weight"), [(None, 1), (1, 0), (1, True), (object(), 1)])
def test_a_spend_that_a_rate_cannot_have_is_refused(client, key, weight):
    with pytest.raises(OptionError, match=r"Rate\('api'\): "):
        client.spend(API, key, weight)


def test_a_job_that_could_not_start_at_once_is_dropped(client, site, connection, clock):
    chore = Gatekeeper()
    turn(chore, site, clock)
    clock.now += 3_600 * 3
    ids, told = client.enqueue_many([Ping()] * 3), []
    unsubscribe = subscribe(lambda event: told.append(str(event)))
    turn(chore, site, clock)
    unsubscribe()

    assert told == ["rate.dropped queue=default jobs=2"]
    assert let_go(connection) == ids[:1]
    row = archived(connection, ids[1])
    assert (row["state"], row["meta"]["cause"]) == ("cancelled", "rate")
    assert "its rate drops such jobs" in client.why(ids[2])


def test_a_job_heavier_than_a_bucket_waits_for_a_full_one_and_those_behind_it_for_its_weight(client, site, connection, clock):
    chore = Gatekeeper()
    turn(chore, site, clock)
    clock.now += 3_600
    ids = client.enqueue_many([Heavy(90), Heavy(10)])
    turn(chore, site, clock)
    assert let_go(connection) == ids[:1]
    claimed_ids(connection, MINE, limit=100)
    turn(chore, site, clock)
    clock.now += 15
    turn(chore, site, clock)
    assert let_go(connection) == ids[:1]
    clock.now += 20
    turn(chore, site, clock)
    assert let_go(connection) == ids


@pytest.mark.further
def test_an_operators_time_and_burst_hold_over_the_codes_until_they_are_removed(client, site, connection, clock):
    chore = Gatekeeper()
    client.enqueue_many([Call(1)] * 200)

    def starts():
        """Return how many more are let go in twenty hours, of which each starts at once."""
        before = len(let_go(connection))
        for _ in range(80):
            site.woken = True  # as by the hint of a change
            turn(chore, site, clock, hours=0.25)
            claimed_ids(connection, MINE, limit=100)
        return len(let_go(connection)) - before

    starts()
    assert 18 <= starts() <= 21
    client.set_gate("api", 2, per=14_400)  # two in four hours
    starts()  # the bucket is deeper now, so there is something in it at once
    assert 9 <= starts() <= 11
    client.set_gate("api", 2)  # and the code's hour
    assert 36 <= starts() <= 42
    client.remove_gate("api")
    starts()
    assert 18 <= starts() <= 21


def test_an_operators_burst_is_what_may_start_at_once_after_a_pause(client, site, connection, clock):
    chore = Gatekeeper()
    client.set_gate("api", 1, burst=1)
    turn(chore, site, clock)
    turn(chore, site, clock, hours=9)
    client.enqueue_many([Call(1)] * 20)
    turn(chore, site, clock)
    assert len(let_go(connection)) == 1 + 1


def test_why_says_how_soon_a_job_may_start(client):
    first, *_, last = client.enqueue_many([Call(1)] * 6)

    assert "the gate 'api' for key 1: 1 may start in 3600 s" in client.why(first)
    assert client.why(last).startswith(f"job {last} waits at the gate 'api' for key 1: 1 may start in 3600 s, behind 5 jobs")
    assert "may start in 10,800 s at the earliest" in client.why(last)
