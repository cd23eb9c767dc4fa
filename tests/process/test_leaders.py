"""Supervisors that lead: who holds which lease, through deaths, stops, requests and whatever is notified."""

import os
import signal
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fastq.admin.leaders import resign
from tests.db.jobs import session
from tests.helpers import Stopwatch, after_renewals, process_exists, wait_for, wait_until_gone
from tests.proxy import Proxy

pytestmark = [pytest.mark.process, pytest.mark.further]

DEFAULT, SCHEMA = "leader:default", "schema"
BUSY = 0.25  # s; what a busy machine may add
LEASES = (
    "select name, holder, term, extract(epoch from expires_at - clock_timestamp())::float8 from fastq.lease where holder <> ''"
)
BEATS = "select min(expires_at) from fastq.process"
ELECTORS = "select pid from pg_stat_activity where application_name = 'fastq elector' and datname = current_database()"


def leases(jobs):
    """Return (holder, term, seconds left) of the leases that are held, by name."""
    return {name: tuple(rest) for name, *rest in jobs.execute(LEASES)}


def holder(jobs, name=DEFAULT):
    return leases(jobs).get(name, ("",))[0]


def pid_of(jobs, name=DEFAULT):
    """Return the pid that a lease's holder says."""
    return int((holder(jobs, name) or "::").split(":")[1] or 0)


def wait_for_leader(jobs, supervisor, name=DEFAULT, timeout=10.0):
    """Wait until a supervisor holds a lease; return the lease's row."""
    wait_for(lambda: pid_of(jobs, name) == supervisor.pid, timeout, f"{name} to be held by {supervisor.pid}: {leases(jobs)}")
    return leases(jobs)[name]


def after_beats(jobs, times):
    """Wait until the hosts have beaten so often: each time a second has passed, and whoever was to do something could have."""
    for _ in range(times):
        before = jobs.execute(BEATS)
        wait_for(lambda before=before: jobs.execute(BEATS) != before, what="the next beat")


@pytest.mark.lease("L45", "L48")
def test_each_domain_has_a_leader_and_the_schema_has_one(supervise, jobs):
    billing = supervise(leader_domain="billing", queues="invoices=1")
    wait_for_leader(jobs, billing, "leader:billing")
    mail = supervise(leader_domain="mail", queues="emails=1")
    second = supervise(leader_domain="mail", queues="emails=1")
    wait_for(lambda: len(leases(jobs)) == 3)

    after_renewals(jobs.url, "leader:mail", 3)

    held = leases(jobs)
    assert set(held) == {"leader:billing", "leader:mail", SCHEMA}
    assert pid_of(jobs, "leader:billing") == pid_of(jobs, SCHEMA) == billing.pid
    assert pid_of(jobs, "leader:mail") in {mail.pid, second.pid}
    assert [one.said.count("lease.acquired") for one in (billing, mail, second)].count(0) == 1
    for one in (billing, mail, second):
        assert one.stop()[0] == 0
    assert leases(jobs) == {}


@pytest.mark.lease("L49")
@pytest.mark.parametrize(("domain", "queues"), [("mail", "emails=1,invoices=1"), ("default", "default=1")])
def test_a_supervisor_whose_queues_another_domain_maintains_does_not_start(supervise, jobs, domain, queues):
    first = supervise(leader_domain="billing", queues="invoices=1")
    second = supervise(leader_domain=domain, queues=queues, ready=False)

    assert second.process.wait(20) not in (0, None)

    assert "queue 'invoices' is maintained by domain 'billing'" in second.said
    assert f"domain '{domain}'" in second.said
    assert first.stop()[0] == 0


@pytest.mark.slow
@pytest.mark.lease("L52")
def test_a_supervisor_that_is_not_to_lead_works_but_never_leads(supervise, jobs):
    follower = supervise(lead="off")
    after_beats(jobs, 3)  # more than a ttl
    assert leases(jobs) == {}
    assert follower.sessions("elector") == 0
    id_ = jobs.add("nap")
    jobs.wait_for(id_, "completed")

    leader = supervise()
    wait_for_leader(jobs, leader)
    leader.send(signal.SIGKILL)
    leader.process.wait()
    wait_for(lambda: max(left for _, _, left in leases(jobs).values()) < -1.0, what="the leases to be out for twice the jitter")
    assert follower.stop()[0] == 0


@pytest.mark.lease("L24")
def test_worker_processes_neither_hold_the_leases_connection_nor_matter_to_it(supervise, jobs, database):
    with Proxy(database) as proxy:  # TCP, so that the kernel tells whose socket is whose
        jobs.url = proxy.url
        supervisor = supervise(procs=2)
        jobs.url = database
        before = wait_for_leader(jobs, supervisor)
        elector = jobs.execute(ELECTORS)
        assert len(elector) == 1
        mine = sockets(supervisor.pid, proxy.port)
        assert len(mine) >= 3, "elector, registrar, listener, and the terms'"
        for pid in supervisor.descendants:
            assert not sockets(pid, proxy.port) & mine, f"process {pid} has inherited a connection of the supervisor"

        killed = supervisor.workers
        assert len(killed) == 2
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        wait_until_gone(killed, 5.0)  # so that two workers are two new ones: a death within a stop is a failure
        wait_for(lambda: len(supervisor.workers) == 2, 20.0, "the new worker processes")

        after = leases(jobs)[DEFAULT]
        assert after[:2] == before[:2]
        assert jobs.execute(ELECTORS) == elector, "not even its session has changed"
        assert "lease.lost" not in supervisor.said
        assert supervisor.stop()[0] == 0


def sockets(pid, port):
    """Return the inodes of a process's TCP sockets that are connected to a port of this machine."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    connected = {fields[9] for fields in lines if int(fields[2].rpartition(":")[2], 16) == port}
    found = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found & connected


@pytest.mark.slow
@pytest.mark.lease("L25", "L32")
def test_a_supervisor_that_is_started_again_does_not_inherit_the_lease_of_its_killed_predecessor(supervise, jobs):
    first = supervise(lease_ttl="4")
    old = wait_for_leader(jobs, first)
    first.send(signal.SIGKILL)
    first.process.wait()
    second = supervise(lease_ttl="4")

    assert holder(jobs) == old[0] or leases(jobs)[DEFAULT][1] > old[1], "until it runs out it is the dead one's"
    new = wait_for_leader(jobs, second)
    assert new[0] != old[0]
    assert new[1] > old[1]
    assert second.stop()[0] == 0


@pytest.mark.lease("L25")
def test_the_killed_leaders_lease_is_taken_when_it_runs_out_and_not_before(supervise, jobs):
    first, second = supervise(lease_ttl="2"), supervise(lease_ttl="2")
    leader = wait_for(lambda: {first.pid: first, second.pid: second}.get(pid_of(jobs)))
    other = second if leader is first else first
    wait_for(lambda: leases(jobs)[DEFAULT][2] < 1.3)  # not just now renewed, so that the next renewal is due
    leader.send(signal.SIGKILL)
    watch = Stopwatch()
    left = leases(jobs)[DEFAULT][2]
    leader.process.wait()

    new = wait_for_leader(jobs, other)

    assert new[1]
    assert watch.clock() > left - BUSY
    assert watch.idle() < 2.0 + 0.5 + BUSY
    assert other.stop()[0] == 0


@pytest.mark.lease("L44", "L13")
def test_a_leader_that_stops_hands_over_at_once_though_its_jobs_still_run(supervise, jobs):
    first = supervise(lease_ttl="20", queues="default=1,slow=1")
    wait_for_leader(jobs, first)
    second = supervise(lease_ttl="20")
    wait_for(lambda: second.sessions("elector") == 2)
    id_ = jobs.add("nap", seconds=3.0, queue="slow")
    jobs.wait_until_told("start", id_)

    first.send(signal.SIGTERM)
    watch = Stopwatch()
    wait_for(lambda: holder(jobs) != "" and pid_of(jobs) == second.pid, 5.0, "the second to lead")

    assert watch.idle() < 0.25 + BUSY
    assert process_exists(first.pid)
    assert jobs.fate(id_).state == "running"
    assert first.wait()[0] == 0
    assert jobs.fate(id_).state == "completed"
    assert first.said.count("lease.released") == 2
    assert second.stop()[0] == 0


@pytest.mark.lease("L42")
def test_a_leader_that_was_asked_to_resign_and_stops_is_not_elected_again(supervise, jobs):
    supervisor = supervise(lease_ttl="20")
    _, term, _ = wait_for_leader(jobs, supervisor)
    connection = session(jobs.url)
    assert resign(connection, DEFAULT).term == term
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait()[0] == 0

    assert leases(jobs) == {}
    assert jobs.execute("select term from fastq.lease where name = %s", DEFAULT) == [(term,)]
    assert supervisor.said.count("lease.acquired lease=leader:default") == 1
    connection.close()


@pytest.mark.lease("L41", "L44")
def test_a_leader_that_is_asked_to_resign_leaves_leading_to_another_and_works_on(supervise, jobs):
    first = supervise(lease_ttl="20")
    _, term, _ = wait_for_leader(jobs, first)
    second = supervise(lease_ttl="20")
    wait_for(lambda: second.sessions("elector") == 2)
    connection = session(jobs.url)
    for _ in range(5):
        resign(connection, DEFAULT, term)
    connection.close()

    assert wait_for_leader(jobs, second, timeout=2.0)[1] > term
    assert pid_of(jobs, SCHEMA) == first.pid, "it was asked for one lease"
    assert first.said.count("lease.resigned") == 1
    assert 'reason="it was asked to (fastq leader resign)"' in first.said
    id_ = jobs.add("nap")
    jobs.wait_for(id_, "completed")
    after_beats(jobs, 3)  # its rest is over
    assert pid_of(jobs) == second.pid
    assert first.stop()[0] == 0
    assert second.stop()[0] == 0


@pytest.mark.lease("L41", "L43")
def test_whatever_is_notified_the_leader_leads_on(supervise, jobs):
    supervisor = supervise()
    before = {name: row[:2] for name, row in leases(jobs).items()} if wait_for_leader(jobs, supervisor) else {}
    words = ("@lease", "@lease ", "@lease nobody", "@lease leader:default", "@lease schema", "@resign leader:default", "@")
    junk = ('{"action": "resign", "leader_id": "x"}', "{", "resign", "@due", "@periodic", "@cancel", "@due @lease", "x" * 7_000)
    for _ in range(20):
        for payload in (*words, *junk):
            jobs.execute("select pg_notify('fastq', %s)", payload)
    id_ = jobs.add("nap")  # all of that was heard before this
    jobs.wait_for(id_, "completed")
    after_renewals(jobs.url, DEFAULT, 2)

    assert {name: row[:2] for name, row in leases(jobs).items()} == before
    assert "lease.lost" not in supervisor.said
    assert "lease.resigned" not in supervisor.said
    assert supervisor.stop()[0] == 0


@pytest.mark.lease("L30")
def test_a_leader_that_only_polls_hands_over_within_a_poll(supervise, jobs):
    first = supervise(lease_ttl="20", poll_only="on", poll_interval="0.2")
    wait_for_leader(jobs, first)
    second = supervise(lease_ttl="20", poll_only="on", poll_interval="0.2")
    wait_for(lambda: second.sessions("elector") == 2)
    first.send(signal.SIGTERM)
    watch = Stopwatch()
    wait_for_leader(jobs, second, timeout=5.0)

    assert watch.idle() < 0.2 + 0.25 + BUSY
    assert first.wait()[0] == 0
    assert second.stop()[0] == 0


def test_who_never_leads_needs_not_own_the_schema(supervise, jobs):
    role = f"fastq_worker_{os.getpid()}"
    jobs.execute(f"create role {role} login")
    jobs.execute(f"grant usage on schema fastq to {role}")
    jobs.execute(f"grant select, insert, update, delete on all tables in schema fastq to {role}")
    jobs.execute(f"grant usage, select, update on all sequences in schema fastq to {role}")
    supervisor = supervise(database_url=make_conninfo(jobs.url, user=role), lead="off")

    done, failed = jobs.add("nap"), jobs.add("outcome", what="raise", max_attempts=1)

    assert jobs.wait_for(done, "completed")
    assert jobs.wait_for(failed, "discarded")
    assert supervisor.stop()[0] == 0
    assert "permission denied" not in supervisor.said
    jobs.execute(f"drop owned by {role}")
    jobs.execute(f"drop role {role}")


def test_a_host_whose_domain_came_later_to_a_queue_stops_in_order_and_says_whose_it_is(supervise, jobs):
    first = supervise(queues="default=1", leader_domain="mail", process_ttl=60)
    later = supervise(queues="other=1", leader_domain="billing", process_ttl=60)

    jobs.execute("update fastq.process set queues = 'default,other' where domain = 'mail'")  # as if both had started at once

    assert later.wait()[0] == 1
    assert "queue 'other' is maintained by domain 'billing' and by domain 'mail'" in later.said
    assert "the other one was there first" in later.said
    assert first.process.poll() is None


def test_a_domain_is_named_host_by_host_while_jobs_go_on(supervise, jobs):
    old = supervise(queues="default=1")
    refused = supervise(queues="default=1", leader_domain="billing", ready=False)
    assert refused.wait()[0] == 2

    new = supervise(queues="default=1", leader_domain="billing", leader_domain_from="default")
    new.wait_until_it_says("term.started lease=leader:billing")
    assert old.stop()[0] == 0
    new.wait_until_it_says("term.started lease=schema")
    late = jobs.add("nap", delay=0.1)

    assert jobs.wait_for(late, "completed").attempt == 1
    assert "domains.overlap" not in new.said
    assert new.stop()[0] == 0


def test_where_every_host_leaves_leading_to_others_it_is_told(supervise, jobs):
    supervisor = supervise(lead="off", lease_ttl=1)

    supervisor.wait_until_it_says("warning leader.missing domain=default")

    assert supervisor.stop()[0] == 0
