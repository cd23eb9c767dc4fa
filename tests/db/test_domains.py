"""Domains: which queues a leader maintains, and queues that two would maintain."""

from dataclasses import replace

import pytest

from fastq import Every
from fastq.admin.periodic import list_periodic
from fastq.errors import LeaseError, LeaseLost
from fastq.host import neighbours
from fastq.host.neighbours import Neighbours
from fastq.lead import definitions
from fastq.lead.chores import promote
from fastq.lead.chores.promote import Promote
from fastq.lead.chores.unled import Unled
from fastq.lead.term import domains
from fastq.lead.term.domains import Conflict, DomainQueues, Domains, check, conflicts
from fastq.lead.term.term import Term
from fastq.leases.elector import Trust
from fastq.leases.lease import Fence, acquire, boottime, release
from fastq.schema import migrate
from tests.db.jobs import CHANNEL, ERROR, add, claim_number, living, session
from tests.db.leases import configured, lead, site_on, take_over
from tests.db.test_periodic import declare, registry_of
from tests.helpers import execute, wait_for

TTL = 15.0
DEFAULT = "default"


@pytest.fixture
def site(database):
    """Give a place where the leader of the domain 'billing' works, which itself works the queue 'invoices'."""
    made = site_on(database, name="leader:billing", leader_domain="billing")
    made.config = replace(made.config, queues={"invoices": 4})
    yield made
    made.connection.close()


def work(connection, number, domain, *queues, ttl=TTL):
    """Do what a supervisor's beat does for a process; a ttl below 0 makes it one that is gone."""
    connection.run("process_beat", [number], [number], "host", f"s{number}", ",".join(queues), ttl, domain, [], [], [None])


def refusal(connection, domain, *queues):
    """Return what a supervisor is told that would join; '' if it may."""
    try:
        check(connection, domain, queues, TTL)
    except LeaseError as error:
        return str(error)
    return ""


# Overlaps


@pytest.mark.lease("L49")
def test_a_queue_of_another_domain_is_refused_with_both_names(connection):
    work(connection, 1, "billing", "invoices", "payments")

    said = refusal(connection, "mail", "emails", "payments")

    assert said == (
        "queue 'payments' is maintained by domain 'billing' and by domain 'mail'; a queue belongs to one domain: "
        "take it off one of them; its processes count until 15 s after their last sign of life"
    )
    assert refusal(connection, "mail", "emails") == ""
    assert refusal(connection, "billing", "payments", "invoices", "refunds") == "", "its own"


@pytest.mark.lease("L49")
def test_the_default_domain_stands_against_every_queue_of_a_named_one_whoever_comes_first(connection):
    work(connection, 1, DEFAULT, "default")
    said = refusal(connection, "billing", "invoices")
    assert said.startswith("queue 'invoices' is maintained by domain 'billing', and by domain 'default', which maintains every")
    assert refusal(connection, DEFAULT, "invoices", "default") == "", "alone it may have any"

    connection.execute("delete from fastq.process")
    work(connection, 2, "billing", "invoices")
    said = refusal(connection, DEFAULT, "default")
    assert said.startswith("queue 'invoices' is maintained by domain 'billing', and by domain 'default', which maintains every")
    assert "give every fastq run of this schema a --leader-domain, or none" in said


@pytest.mark.lease("L49")
def test_a_leader_counts_before_its_first_process_and_after_its_last(connection):
    term = acquire(connection, "leader:billing", "somebody", TTL, ["invoices"]).term
    assert refusal(connection, "mail", "invoices")
    assert refusal(connection, DEFAULT, "default")
    connection.execute("update fastq.lease set holder = '' where name = 'leader:billing'")
    assert term
    assert refusal(connection, "mail", "invoices") == ""

    fence = lead(connection, "leader:default")
    assert refusal(connection, "mail", "emails")
    assert release(connection, fence)
    assert refusal(connection, "mail", "emails") == ""


@pytest.mark.lease("L49", "L50")
def test_processes_that_are_gone_and_leases_that_ran_out_count_no_more(connection):
    work(connection, 1, "billing", "invoices", ttl=-1.0)
    acquire(connection, "leader:billing", "somebody", TTL, ["invoices"])
    connection.execute("update fastq.lease set expires_at = clock_timestamp()")

    assert refusal(connection, "mail", "invoices") == ""
    assert refusal(connection, DEFAULT, "invoices") == ""


@pytest.mark.lease("L49")
def test_three_domains_on_one_queue_are_found_as_pairs(connection):
    for number, domain in enumerate(("c", "a", "b")):
        work(connection, number, domain, "q", f"q{domain}")

    assert conflicts(connection) == [Conflict("q", "a", "b"), Conflict("q", "a", "c"), Conflict("q", "b", "c")]


@pytest.mark.lease("L49")
def test_an_overlap_that_came_about_by_rows_changed_by_hand_is_reported_once_and_again_when_it_has_gone_and_come(site, events):
    connection, chore = site.connection, Domains()
    work(connection, 1, "billing", "invoices")
    work(connection, 2, "mail", "emails")

    def reported():
        assert chore.run(site) > 0
        found = [(event.fields["queue"], event.fields["domain"], event.fields["other"]) for event in events]
        events.clear()
        return found

    assert reported() == []
    connection.execute("update fastq.process set queues = 'emails,invoices' where id = 2")
    assert reported() == [("invoices", "billing", "mail")]
    assert reported() == []
    work(connection, 3, DEFAULT, "default")
    assert reported() == [("emails", "mail", "default"), ("invoices", "billing", "default"), ("invoices", "mail", "default")]
    connection.execute("delete from fastq.process where id > 1")
    assert reported() == []
    work(connection, 2, "mail", "invoices")
    assert reported() == [("invoices", "billing", "mail")]


@pytest.mark.lease("L49")
def test_a_domain_may_join_that_takes_over_from_the_other_and_nobody_reports_the_two(site, events):
    connection, chore = site.connection, Domains()
    work(connection, 1, DEFAULT, "default", "invoices")
    check(connection, "billing", ["invoices"], TTL, DEFAULT)
    with pytest.raises(LeaseError):
        check(connection, "billing", ["invoices"], TTL, "mail")
    work(connection, 2, "billing", "invoices")

    site.config = replace(site.config, leader_domain_from=DEFAULT)
    chore.run(site)
    assert events == []
    work(connection, 3, "mail", "emails")
    chore.run(site)
    assert [(event.fields["domain"], event.fields["other"]) for event in events] == [("mail", DEFAULT)]


# Two domains that did not see each other when they started


def rival(connection, domain, *queues, successor_of=""):
    """Return the domain for which a supervisor would give way after a beat."""
    config = configured(leader_domain=domain, queues=dict.fromkeys(queues, 1), leader_domain_from=successor_of)
    neighbours = Neighbours(config)
    neighbours.look(connection.run)
    return neighbours.rival


@pytest.mark.lease("L49")
def test_of_two_domains_that_started_at_once_the_one_that_came_later_gives_way_and_the_other_does_not(connection):
    work(connection, 65, "mail", "emails", "payments")
    work(connection, 129, "billing", "invoices", "payments")
    work(connection, 193, "mail", "emails", "payments")

    assert rival(connection, "billing", "invoices", "payments") == Conflict("payments", "billing", "mail")
    assert rival(connection, "mail", "emails", "payments") is None
    assert rival(connection, "billing", "invoices", "payments", successor_of="mail") is None

    connection.execute("update fastq.process set queues = 'emails'  where domain = 'mail'")
    assert rival(connection, "billing", "invoices", "payments") is None


@pytest.mark.lease("L49")
@pytest.mark.parametrize(("first", "later"), [(DEFAULT, "billing"), ("billing", DEFAULT)])
def test_the_default_domain_gives_way_and_is_given_way_to_whatever_the_queues_are(connection, first, later):
    work(connection, 1, first, "one")
    work(connection, 65, later, "other")

    assert rival(connection, first, "one") is None
    assert rival(connection, later, "other") == Conflict("other" if first == DEFAULT else "one", later, first)

    work(connection, 1, first, "one", ttl=-1.0)
    assert rival(connection, later, "other") is None, "it is gone"


def test_nobody_who_leads_is_missed_at_the_second_look_by_those_that_leave_it_to_others(connection, events, monkeypatch):
    monkeypatch.setattr(neighbours, "LEASES", 0)
    one = Neighbours(configured(leader_domain="billing", lead=False))
    Neighbours(configured(leader_domain="billing")).look(connection.run)

    def missed():
        one.look(connection.run)
        found = [event.fields["domain"] for event in events if event.name == "leader.missing"]
        events.clear()
        return found

    assert [missed() for _ in range(3)] == [[], ["billing"], []]
    fence = lead(connection, "leader:default")
    assert missed() == [], "it leads for every domain"
    release(connection, fence)
    lead(connection, "leader:mail")
    assert [missed() for _ in range(2)] == [[], ["billing"]]
    lead(connection, "leader:billing")
    assert missed() == []


# Queues that nobody maintains


@pytest.fixture
def schedules(connection):
    """Declare periodic jobs in two queues: one of the domain 'billing', and one that no domain works."""
    registry = registry_of(sweep=(Every(1), {"queue": "invoices"}), news=(Every(1), {"queue": "nobodys"}))
    definitions.define(connection, registry)
    declare(connection, registry, process=9)


def states(connection):
    return {each.name: each.state for each in list_periodic(connection)}


@pytest.mark.lease("L47")
def test_a_periodic_job_whose_queue_is_in_no_domain_is_listed_as_led_by_nobody(database, connection, schedules):
    assert states(connection) == {"sweep": "no leader", "news": "no leader"}, "nobody leads"
    fence = Fence("leader:billing", "somebody", acquire(connection, "leader:billing", "somebody", TTL, ["invoices"]).term)
    assert states(connection) == {"sweep": "on", "news": "no leader"}
    release(connection, fence)
    assert states(connection) == {"sweep": "no leader", "news": "no leader"}

    lead(connection, "leader:default")
    assert states(connection) == {"sweep": "on", "news": "on"}
    connection.execute("update fastq.lease set expires_at = clock_timestamp()")
    assert set(states(connection).values()) == {"no leader"}
    connection.execute("update fastq.periodic set paused_at = now() where name = 'news'")
    connection.execute("delete from fastq.process")
    assert states(connection) == {"sweep": "undeclared", "news": "paused"}


@pytest.mark.lease("L47")
def test_periodic_jobs_that_nobody_makes_tick_are_reported_at_the_second_look_and_once(site, connection, schedules, events):
    connection.execute("update fastq.lease set queues = array['invoices'] where name = 'leader:billing'")
    chore = Unled()

    def reported():
        chore.run(site)
        found = [(event.fields["queue"], event.fields["names"]) for event in events if event.name == "periodic.no_leader"]
        events.clear()
        return found

    assert [reported() for _ in range(3)] == [[], [("nobodys", ["news"])], []]
    lead(connection, "leader:default")
    assert reported() == []
    connection.execute("update fastq.lease set expires_at = clock_timestamp() where name = 'leader:default'")
    assert [reported() for _ in range(3)] == [[], [("nobodys", ["news"])], []]
    connection.execute("update fastq.periodic set paused_at = now()")
    assert reported() == []


# What a domain maintains


@pytest.mark.lease("L50")
def test_a_leader_maintains_what_any_living_process_of_its_domain_works(site):
    connection, chore = site.connection, DomainQueues()
    work(connection, 1, "billing", "payments", "invoices")
    work(connection, 2, "billing", "refunds")
    work(connection, 3, "billing", "ancient", ttl=-1.0)
    work(connection, 4, "mail", "emails")

    chore.start(site)

    assert site.queues == ["invoices", "payments", "refunds"]
    assert connection.execute("select queues from fastq.lease where name = 'leader:billing'") == [(site.queues,)]
    connection.execute("update fastq.process set expires_at = clock_timestamp() where id = 1")
    assert 0 < chore.run(site) <= 5.0
    assert site.queues == ["invoices", "refunds"], "its own remain, whoever else works them"


@pytest.mark.lease("L50")
def test_the_list_is_written_only_when_it_has_changed(site):
    chore, version = DomainQueues(), "select xmin::text from fastq.lease where name = 'leader:billing'"
    chore.start(site)
    before = site.connection.execute(version)
    chore.run(site)
    assert site.connection.execute(version) == before
    work(site.connection, 1, "billing", "payments")
    chore.run(site)
    assert site.connection.execute(version) != before


@pytest.mark.lease("L50", "L47")
def test_in_a_rolling_deploy_an_old_leader_promotes_the_due_jobs_of_a_queue_that_only_the_new_programs_know(site):
    connection, queues, promote = site.connection, DomainQueues(), Promote()
    due = {"state": "scheduled", "scheduled_at": "2020-01-01", "seq": None}
    (new,), (foreign,) = add(connection, queue="payments", **due), add(connection, queue="emails", **due)
    queues.start(site)
    promote.start(site)
    promote.run(site)
    assert living(connection, new)["state"] == "scheduled", "nobody works that queue here"

    work(connection, 1, "billing", "payments")
    queues.run(site)

    wait_for(lambda: promote.run(site) and living(connection, new)["state"] == "available", what="its promotion")
    assert living(connection, foreign)["state"] == "scheduled"


@pytest.mark.lease("L50")
def test_a_queue_that_is_new_to_the_domain_is_looked_into_at_once(database, connection, monkeypatch):
    monkeypatch.setattr(domains, "INTERVAL", 0.05)
    monkeypatch.setattr(promote, "IDLE", 600.0)
    looks = []

    class Counted(Promote):
        def run(self, site):
            looks.append(site.queues)
            return super().run(site)

    config = configured(leader_domain="billing", queues={"invoices": 1})
    (due,) = add(connection, queue="payments", state="scheduled", scheduled_at="2020-01-01", seq=None)
    fence = lead(connection, "leader:billing")
    term = Term(config, database, fence, Trust(boottime() + 600), lambda: [[DomainQueues(), Counted()]], lambda *_: None)
    term.start()
    wait_for(lambda: looks == [["invoices"]], what="the first look")

    work(connection, 1, "billing", "payments")

    wait_for(lambda: living(connection, due)["state"] == "available", what="its promotion")
    term.end("stop")
    wait_for(lambda: term.ended, what="the end of the term")


# What a chore has read is looked at again when it is changed: the domain's queues may have become others meanwhile.


@pytest.mark.lease("L47")
def test_a_due_job_of_a_queue_that_is_no_longer_the_domains_is_not_promoted(site, connection):
    due = {"state": "scheduled", "scheduled_at": "2020-01-01", "seq": None}
    ours, foreign = (add(connection, queue=queue, **due)[0] for queue in ("invoices", "emails"))

    assert site.write("job_promote", ["invoices"], [ours, foreign], CHANNEL)[0] == 1
    assert [living(connection, job)["state"] for job in (ours, foreign)] == ["available", "scheduled"]

    assert site.write("job_promote", None, [foreign], CHANNEL)[0] == 1, "the default domain has every queue"


@pytest.mark.lease("L47")
def test_a_stranded_job_of_a_queue_that_is_no_longer_the_domains_is_not_rescued(site, connection):
    work(connection, 1, "billing", "payments", ttl=-1.0)
    lost = {"state": "running", "attempt": 1, "claim": claim_number(9, 1), "attempted_at": "2020-01-01"}
    jobs = [add(connection, queue=queue, **lost)[0] for queue in ("invoices", "payments", "emails")]
    found = (jobs, [lost["claim"]] * 3, [1] * 3)

    site.write("job_rescue", ["invoices"], "billing", *found, CHANNEL, ERROR)

    assert [living(connection, job)["state"] for job in jobs] == ["available", "available", "running"]


@pytest.mark.lease("L47")
def test_the_look_for_old_jobs_reads_none_of_another_domain(connection):
    columns = "id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args"
    values = "now(), now() - interval '2 days', 'completed', 1, 1, 1, 0, queue, 'nap', '{}'"
    connection.execute(
        f"insert into fastq.job_archive ({columns}) "
        f"select place, {values} from unnest('{{invoices,emails}}'::text[]) with ordinality as given (queue, place)"
    )

    def ids(queues):
        ((day,),) = connection.execute("select date_trunc('day', now() - interval '2 days')")
        return connection.run_one("archive_old", queues, day, 0.0, 172_800.0, 1.0, None, [], ["completed"], 10, [])[0]

    assert ids(["invoices"]) == [1]
    assert ids(["emails", "payments"]) == [2]
    assert ids(None) == [1, 2]


@pytest.mark.lease("L50")
def test_a_leader_that_was_succeeded_changes_the_list_no_more(site, connection):
    take_over(connection, site.fence)
    work(connection, 1, "billing", "payments")
    before = connection.execute("select queues from fastq.lease where name = 'leader:billing'")

    with pytest.raises(LeaseLost):
        DomainQueues().run(site)

    assert connection.execute("select queues from fastq.lease where name = 'leader:billing'") == before


# Before there were domains


@pytest.mark.lease("L46")
def test_the_leaders_row_of_the_first_version_goes_on_as_the_default_domains(empty_database, monkeypatch):
    known = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: known[:1])
    migrate.migrate(empty_database)
    term = 4_000_000_000_000_000  # ahead of the clock
    execute(
        empty_database,
        "update fastq.leader set holder = 'old:1', term = %s, expires_at = clock_timestamp() + interval '1 h'",
        term,
    )
    monkeypatch.setattr(migrate, "migrations", lambda: known)
    migrate.migrate(empty_database)
    connection = session(empty_database)

    row = connection.execute("select name, holder, term, queues from fastq.lease")
    assert row == [("leader:default", "old:1", term, None)]
    assert acquire(connection, "leader:default", "new", TTL).term is None, "it is still the old program's"
    connection.execute("update fastq.lease set expires_at = clock_timestamp()")
    assert acquire(connection, "leader:default", "new", TTL).term == term + 1
    connection.close()


@pytest.mark.lease("L46", "L47")
def test_the_default_domain_maintains_every_queue(database):
    site = site_on(database, name="leader:default")
    due = {"state": "scheduled", "scheduled_at": "2020-01-01", "seq": None}
    jobs = [add(site.connection, queue=queue, **due)[0] for queue in ("default", "emails", "nobody_works_it")]
    promote = Promote()
    promote.start(site)
    promote.run(site)

    assert {living(site.connection, job)["state"] for job in jobs} == {"available"}
    site.connection.close()
