"""What an operator sees of gates, and the numbers that he sets: they hold over the code's, at once, until they are removed."""

import json
from dataclasses import dataclass

import pytest

from fastq import Args, Client, admin
from fastq.admin import gates
from fastq.args.gates import Limit
from fastq.config import Config
from fastq.errors import OptionError
from fastq.lead.gate import gatekeeper
from fastq.lead.gate.gatekeeper import Gatekeeper
from tests.db.jobs import CHANNEL, add, claim
from tests.db.leases import run_until, site_on


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


def work_off(chore, site):
    """Run a chore until it has nothing to do at once; return for how long it rests."""
    return run_until(chore, site, lambda pause: pause > 0)[-1]


@pytest.fixture
def keep(database):
    """Give a function that runs a gatekeeper until it has nothing to do; it leads from its first run on."""
    site, chore = site_on(database, name="schema"), Gatekeeper()
    site.woken = True  # as by the hint of each change
    yield lambda: work_off(chore, site)
    site.connection.close()


def gate(name, sort="limit", key="", weight=1, at_most=20):
    return [sort, name, key, weight, at_most]


def put(connection, *entries, count=1, admitted=False, **columns):
    """Put jobs at gates by hand, waiting there or admitted, with their gates as an enqueue writes them."""
    text = json.dumps(entries, separators=(",", ":"))
    own = {} if admitted else {"state": "waiting", "seq": None, "waits_for": text}
    jobs = add(connection, count, meta=json.dumps({"gates": text}), **own, **columns)
    if admitted:
        slots = "insert into fastq.gate_permit select id, queue, meta ->> 'gates' from fastq.job where id = any ($1)"
        connection.execute(slots, jobs)
    return jobs


def test_a_gate_shows_its_number_its_keys_and_its_jobs(connection, operator):
    put(connection, gate("mail-api", key=1), gate("cpu", at_most=5), count=3, created_at="2026-02-02", priority=2)
    put(connection, gate("mail-api", key=1), gate("cpu", at_most=5), created_at="2026-01-02", priority=3)
    put(connection, gate("mail-api", key=2), count=2, admitted=True)
    add(connection, 5)

    cpu, mail = gates.list_gates(operator)

    assert (cpu.name, cpu.sort, cpu.at_most, cpu.keys, cpu.admitted, cpu.waiting) == ("cpu", "limit", 5, 1, 0, 4)
    assert (mail.name, mail.state, mail.at_most, mail.keys, mail.admitted, mail.waiting) == ("mail-api", "open", 20, 2, 2, 4)
    assert f"{mail.oldest:%Y-%m-%d}" == "2026-01-02"
    assert (mail.set_to, mail.defaults, mail.more) == (None, [20], False)


def test_a_number_that_is_set_shows_beside_the_numbers_in_the_code(connection, operator):
    put(connection, gate("mail-api", at_most=20))
    put(connection, gate("mail-api", at_most=30), admitted=True)
    assert [(row.state, row.at_most, row.defaults) for row in gates.list_gates(operator)] == [("differs", None, [20, 30])]

    assert gates.set_gate(operator, "mail-api", 7) is None
    assert gates.set_gate(operator, "idle", 1) is None
    assert gates.set_gate(operator, "mail-api", 0) == 7

    idle, mail = gates.list_gates(operator)
    assert (mail.state, mail.at_most, mail.set_to, mail.defaults) == ("closed", 0, 0, [20, 30])
    assert (idle.state, idle.at_most, idle.sort, idle.keys) == ("set", 1, None, 0)


def test_a_number_can_be_removed_and_only_once(connection, operator):
    gates.set_gate(operator, "mail-api", 7)

    assert gates.remove_gate(operator, "mail-api") == 7
    assert gates.remove_gate(operator, "mail-api") is None
    assert gates.list_gates(operator) == []


def test_a_fair_gate_has_one_room_and_jobs_with_gates_that_nobody_can_read_are_told_apart(connection, operator):
    put(connection, gate("tenants", sort="fair", key="a", at_most=50), count=2, admitted=True)
    put(connection, [*gate("tenants", sort="fair", key="b", at_most=50), [3]])
    add(connection, 4, state="waiting", seq=None, waits_for="[x", meta=json.dumps({"gates": "[x"}))

    unreadable, fair = gates.list_gates(operator)

    assert (unreadable.name, unreadable.state, unreadable.waiting) == ("?", "closed", 4)
    assert (fair.sort, fair.at_most, fair.keys, fair.admitted, fair.waiting) == ("fair", 50, 2, 2, 1)


def test_setting_and_removing_wake_the_gatekeeper(operator, other):
    other.listen(CHANNEL)

    gates.set_gate(operator, "mail-api", 7)
    assert list(other.notifications(5)) == ["@gate"]
    gates.remove_gate(operator, "mail-api")
    assert list(other.notifications(5)) == ["@gate"]
    gates.remove_gate(operator, "mail-api")
    assert list(other.notifications(0.2)) == []


@pytest.mark.parametrize("at_most", [-1, 2**31, True, 1.5, "7"])
def test_a_number_that_a_gate_cannot_have_is_refused_with_the_rule(operator, at_most):
    with pytest.raises(OptionError, match=r"gate 'mail-api': at_most=.*: expected a whole number from 0 to 2,147,483,647"):
        gates.set_gate(operator, "mail-api", at_most)


@pytest.mark.parametrize("change", [lambda on, name: gates.set_gate(on, name, 1), gates.remove_gate])
def test_a_name_that_no_gate_has_is_refused(operator, change):
    with pytest.raises(OptionError, match="expected a name like 'mail-api'"):
        change(operator, "mail api")


def test_counting_stops_and_says_so(connection, operator, monkeypatch):
    monkeypatch.setattr(gates, "COUNT", 8)
    put(connection, gate("mail-api"), count=20)
    put(connection, gate("cpu"), count=3)

    cpu, mail = gates.list_gates(operator)

    assert (cpu.waiting, cpu.more) == (3, False)
    assert (mail.waiting, mail.more) == (4, True)  # 8 for two lines
    put(connection, gate("cpu"), count=20, admitted=True)
    assert [(row.admitted, row.more) for row in gates.list_gates(operator)] == [(8, True), (0, True)]


def test_a_gate_of_many_keys_hides_no_gate_behind_it(connection, operator, monkeypatch):
    monkeypatch.setattr(gates, "PAGE", 3)
    monkeypatch.setattr(gates, "LINES", 6)
    for key in ("x", 1, -1, [1], {"a": 1}, None, True, "~~"):
        put(connection, gate("a", key=key))
    put(connection, gate("b", key="x"))
    put(connection, gate("a", key="x"), queue="other")

    rows = gates.list_gates(operator)

    assert [row.name for row in rows] == ["a", "b"]
    assert rows[1].waiting == 1
    assert all(row.more for row in rows)


def test_jobs_at_gates_count_as_waiting_in_the_list_of_queues(connection, operator):
    put(connection, gate("mail-api"), count=3, queue="emails")
    add(connection, 2, state="waiting", seq=None, waits_for="worker:nap", queue="emails")
    put(connection, gate("cpu"), queue="reports")

    assert [(row.name, row.waiting) for row in admin.list_queues(operator)] == [("emails", 5), ("reports", 1)]
    assert admin.list_waiting(operator)[0].jobs == 2
    assert [row.waiting for row in admin.list_queues(operator, 4)] == [4, 1]


def test_an_operators_number_lets_more_jobs_go_and_fewer_and_the_codes_holds_when_it_is_removed(
    connection, client, operator, keep, monkeypatch
):
    """Solid Queue #761: after a limit was lowered while jobs ran, their ends made room that there was not."""
    monkeypatch.setattr(gatekeeper, "VALUES", 0.0)
    jobs = client.enqueue_many([MailArgs(1) for _ in range(10)])

    def admitted():
        keep()
        return gates.list_gates(operator)[0].admitted

    def end(*done):
        claim(connection)
        connection.run("job_complete_tied", list(done), [1 << 32 | 1], None)

    assert admitted() == 2
    gates.set_gate(operator, "mail-api", 5)
    assert admitted() == 5
    gates.set_gate(operator, "mail-api", 0)
    end(*jobs[:2])
    assert admitted() == 3  # those that were let go go on
    gates.set_gate(operator, "mail-api", 4)
    assert admitted() == 4
    gates.remove_gate(operator, "mail-api")
    end(*jobs[2:5])
    assert admitted() == 2


def test_a_run_that_comes_too_soon_to_read_the_numbers_is_followed_by_one_that_does(database, client, operator, monkeypatch):
    monkeypatch.setattr(gatekeeper, "VALUES", 5.0)
    site, chore = site_on(database, name="schema"), Gatekeeper()
    client.enqueue_many([MailArgs(1) for _ in range(3)])
    work_off(chore, site)
    gates.set_gate(operator, "mail-api", 3)
    site.woken = True

    assert 4.0 < run_until(chore, site, lambda pause: pause > 1)[-1] <= 5.0
    assert gates.list_gates(operator)[0].admitted == 2
    chore._values_at = 0.0  # as if that time were over
    work_off(chore, site)
    site.connection.close()
    assert gates.list_gates(operator)[0].admitted == 3
