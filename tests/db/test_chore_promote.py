"""Promotion: what is due becomes available, a batch at a time, whatever waits beside it, and the chore knows when to return."""

import time

import pytest

from fastq.lead.chores.promote import BATCH, IDLE, IDLE_POLLING, LOCKED, NAP, Promote
from fastq.lead.term.batch import MAX_ASIDE, MAX_BAD
from tests.db.jobs import CHANNEL, add, claimed_ids, count, living
from tests.db.leases import run_out, run_until, site_on
from tests.helpers import Stopwatch, wait_for

DUE, LATER = "2000-01-01", "2100-01-01"


@pytest.fixture
def site(database):
    """Give a leader of the default domain."""
    made = site_on(database)
    yield made
    made.connection.close()


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    """Let looks follow one another at once, but where a test is about that."""
    monkeypatch.setattr("fastq.lead.chores.promote.REST", 0.0)


def add_waiting(connection, count=1, *, at=DUE, state="scheduled", **columns):
    return add(connection, count, state=state, scheduled_at=at, seq=None, **columns)


def states(connection, ids):
    return [living(connection, job_id)["state"] for job_id in ids]


def available(connection):
    return connection.execute("select count(*) from fastq.job where state = 'available'")[0][0]


def test_what_is_due_becomes_available_and_the_rest_waits(site, connection):
    due = add_waiting(connection) + add_waiting(connection, state="retryable", attempt=3)
    later = add_waiting(connection, at=LATER)

    assert run_out(Promote(), site) == 2

    rows = [living(connection, job_id) for job_id in due]
    assert [(row["state"], row["scheduled_at"], row["attempt"]) for row in rows] == [
        ("available", None, 0),
        ("available", None, 3),
    ]
    assert states(connection, later) == ["scheduled"]
    assert sorted(claimed_ids(connection)) == due


def test_what_is_promoted_lies_ahead_of_every_cursor_in_the_order_in_which_it_was_due(site, connection):
    late = add_waiting(connection, at="2001-01-01")
    early = add_waiting(connection, at="2000-01-01")
    frontier = living(connection, add(connection)[0])["seq"]

    run_out(Promote(), site)

    assert claimed_ids(connection, after=(frontier,) * 4) == early + late


def test_a_run_is_one_bounded_batch_and_a_nap(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.promote.BATCH", 3)
    add_waiting(connection, 7)
    chore = Promote()

    assert [(chore.run(site), available(connection)) for _ in range(3)] == [(NAP, 3), (NAP, 6), (NAP, 7)]
    assert chore.run(site) == IDLE


def test_a_look_is_followed_by_a_rest_in_proportion_whoever_wakes_the_chore(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.promote.REST", 100.0)
    add_waiting(connection)
    chore = Promote()
    began = time.monotonic()
    chore.run(site)
    longest = time.monotonic() - began
    assert available(connection) == 1

    add_waiting(connection)
    assert 0.0 < chore.run(site) < 100 * longest
    assert available(connection) == 1
    wait_for(lambda: chore.run(site) and available(connection) == 2, what="the end of the rest")


def test_a_look_that_found_a_batch_or_more_is_followed_by_no_rest(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.promote.REST", 10_000.0)
    monkeypatch.setattr("fastq.lead.chores.promote.BATCH", 2)
    add_waiting(connection, 5)

    assert run_until(Promote(), site, lambda pause: pause == IDLE) == [NAP, NAP, NAP, IDLE]


def test_each_queue_gets_its_share_however_long_the_backlog_of_another_is(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.promote.LOOK", 10)
    add_waiting(connection, 100, queue="a")
    few = add_waiting(connection, 2, at="2001-01-01", queue="z")

    Promote().run(site)

    assert states(connection, few) == ["available"] * 2


@pytest.mark.parametrize(("ahead", "low", "high"), [("3 s", 2.0, 3.0), ("1 day", IDLE, IDLE)])
def test_the_pause_lasts_until_the_next_one_is_due_but_not_for_ever(site, connection, ahead, low, high):
    (at,) = connection.execute("select clock_timestamp() + $1::text::interval", ahead)[0]
    add_waiting(connection, at=at)
    add_waiting(connection, at=LATER, queue="other")

    assert low <= Promote().run(site) <= high


def test_without_notifications_it_looks_each_second(database):
    site = site_on(database, poll_only=True)
    assert Promote().run(site) == IDLE_POLLING
    site.connection.close()


def test_jobs_that_others_have_locked_come_with_a_later_look(site, connection, other):
    ids = add_waiting(connection, 3)
    other.execute("begin")
    other.execute("select from fastq.job where id = any ($1) for update", ids[:1])
    chore = Promote()

    assert run_until(chore, site, lambda pause: pause == LOCKED) == [NAP, LOCKED]
    assert states(connection, ids) == ["scheduled", "available", "available"]
    other.execute("rollback")
    assert run_out(chore, site) == 1


@pytest.mark.lease("L47")
@pytest.mark.parametrize("none", [None, []])
def test_a_named_domain_promotes_its_queues_and_a_list_of_none_means_all(site, connection, none):
    mine, others = add_waiting(connection, queue="mine"), add_waiting(connection, queue="others")
    site.queues = ["mine", "empty"]

    assert run_out(Promote(), site) == 1
    assert (states(connection, mine), states(connection, others)) == (["available"], ["scheduled"])

    site.queues = none
    assert run_out(Promote(), site) == 1
    assert states(connection, others) == ["available"]


@pytest.mark.lease("L47")
def test_a_named_domain_wakes_up_for_its_own_queues_only(site, connection):
    (soon,) = connection.execute("select clock_timestamp() + interval '1 s'")[0]
    add_waiting(connection, queue="others", at=soon)
    site.queues = ["mine"]

    assert Promote().run(site) == IDLE


def test_each_queue_is_woken_once_in_a_batch(site, connection, other):
    add_waiting(connection, 3, queue="a")
    add_waiting(connection, 3, queue="b")
    other.listen(CHANNEL)

    run_out(Promote(), site)

    assert sorted(other.notifications(timeout=2.0)) == ["a", "b"]


def refuse(connection, ids, doing="raise exception 'not this one'"):
    """Let a trigger of the user's refuse some rows."""
    listed = ", ".join(map(str, ids))
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as $$ "
        f"begin if new.id in ({listed}) then {doing}; end if; return new; end $$"
    )
    connection.execute("create trigger refuse before update on fastq.job for each row execute function public.refuse()")


@pytest.mark.parametrize(
    ("doing", "error"),
    [
        ("raise exception 'not this one'", "not this one"),
        ("insert into public.audit values (1)", 'relation "public.audit" does not exist'),
    ],
)
def test_a_row_that_a_trigger_refuses_is_set_aside_and_the_others_are_promoted(site, connection, events, doing, error):
    ids = add_waiting(connection, 100)
    refuse(connection, [ids[36], ids[37], ids[99]], doing)
    chore = Promote()

    assert run_out(chore, site) == 97

    skipped = [event.fields for event in events if event.name == "chore.row_skipped"]
    assert sorted(event["id"] for event in skipped) == [ids[36], ids[37], ids[99]]
    assert {(event["chore"], event["error"]) for event in skipped} == {("promote", error)}
    more = add_waiting(connection, 5)
    assert run_out(chore, site) == 5, "the rows that are set aside do not hold up others"
    assert states(connection, more) == ["available"] * 5


def test_a_row_that_was_set_aside_is_tried_again(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.term.batch.ASIDE", 0.0)
    (job_id,) = add_waiting(connection)
    refuse(connection, [job_id])
    chore = Promote()
    chore.run(site)
    assert states(connection, [job_id]) == ["scheduled"]
    connection.execute("drop trigger refuse on fastq.job")

    assert run_out(chore, site) == 1


def test_when_every_row_is_refused_it_is_told_once_and_not_a_thousand_times(site, connection, events):
    ids = add_waiting(connection, BATCH)
    refuse(connection, [-1], doing="null; end if; raise exception 'nothing goes'; if false then null")
    watch = Stopwatch()

    Promote().run(site)

    told = [event.name for event in events if event.name.startswith("chore.")]
    assert told.count("chore.row_skipped") <= 11
    assert 1 <= told.count("chore.rows_skipped") <= 12
    assert set(states(connection, ids[:20])) == {"scheduled"}
    assert watch.idle() < 5.0


def test_thousands_of_rows_that_are_set_aside_do_not_slow_down_the_look(site, connection):
    aside = add_waiting(connection, 5_000)
    (good,) = add_waiting(connection, queue="other")
    took = []
    for _ in range(5):  # the shortest is least disturbed by others
        began = time.monotonic()
        ids, _, _ = site.connection.run_one("job_due", None, 20_000, aside)
        took.append(time.monotonic() - began)

    assert ids == [good]
    assert min(took) < 0.3, "each due job is looked up among those set aside, not compared with each"


def test_more_rows_than_can_be_set_aside_do_not_hold_up_other_queues(site, connection, events, monkeypatch):
    monkeypatch.setattr("fastq.lead.term.batch.MAX_ASIDE", 60)
    monkeypatch.setattr("fastq.lead.chores.promote.BATCH", 40)
    refuse(connection, add_waiting(connection, 200))
    chore = Promote()

    run_until(chore, site, lambda pause: pause == LOCKED)
    good = add_waiting(connection, 9, queue="other", at="2001-01-01")  # behind those that come again with each look
    run_until(chore, site, lambda pause: not chore._due)

    assert states(connection, good) == ["available"] * 9
    assert len(chore._batch.aside()) == 60
    told = [event for event in events if event.name == "chore.rows_skipped"]
    assert len(told) <= 3, "what comes again with each look is not told with each"


def test_what_was_set_aside_makes_room_for_others_when_its_time_is_over(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.term.batch.MAX_ASIDE", 10)
    first, second = add_waiting(connection, 10), add_waiting(connection, 10, at="2001-01-01")
    refuse(connection, first + second)
    monkeypatch.setattr("fastq.lead.term.batch.ASIDE", 0.0)
    chore = Promote()
    chore.run(site)
    monkeypatch.setattr("fastq.lead.term.batch.ASIDE", 60.0)
    connection.execute("delete from fastq.job where id = any ($1)", first)

    chore.run(site)
    assert sorted(chore._batch.aside()) == second


def test_good_rows_in_a_crowd_that_is_refused_are_found_in_time(site, connection, monkeypatch):
    ids = add_waiting(connection, 400)
    good = [*ids[95:100], *ids[300:350]]  # the first ones end a piece, behind more bad rows than are looked for
    refuse(connection, sorted(set(ids) - set(good)))
    monkeypatch.setattr("fastq.lead.term.batch.ASIDE", 0.0)
    chore = Promote()

    for _ in range(100):
        chore.run(site)
        if site.changed == len(good):
            break
    assert set(states(connection, good)) == {"available"}


def count_writes(site, monkeypatch):
    """Count the fenced statements from now on."""
    written, write = [], site.write
    monkeypatch.setattr(site, "write", lambda *params: written.append(params) or write(*params))
    return written


def add_to_queues(connection, count):
    """Add a due job to each of many queues."""
    return [
        job_id
        for (job_id,) in connection.execute(
            "insert into fastq.job (kind, state, seq, scheduled_at, queue) "
            f"select 'nap', 'scheduled', null, '{DUE}', 'q' || n from generate_series(1, {count}) as n returning id"
        )
    ]


def test_a_row_that_is_refused_among_hundreds_of_queues_costs_as_much_as_in_one(site, connection, monkeypatch):
    ids = add_to_queues(connection, 500)
    refuse(connection, ids[76:77])
    written = count_writes(site, monkeypatch)

    assert run_out(Promote(), site) == 499
    assert len(written) <= 1 + 8 + 2 * 6, "the batch, its pieces, and the halves of one of them"


def test_a_batch_of_hundreds_of_queues_that_is_refused_whole_is_given_up_as_soon(site, connection, events, monkeypatch):
    add_to_queues(connection, 1_000)
    refuse(connection, [-1], doing="null; end if; raise exception 'nothing goes'; if false then null")
    written = count_writes(site, monkeypatch)

    Promote().run(site)

    assert len(written) <= 250
    assert [event.name for event in events if event.name.startswith("chore.rows")] == ["chore.rows_skipped"]


def test_a_crowd_that_is_refused_does_not_take_the_only_row_of_another_queue_with_it(site, connection):
    refuse(connection, add_waiting(connection, 300, queue="b"))
    good = [*add_waiting(connection, queue="a"), *add_waiting(connection, queue="c")]

    Promote().run(site)

    assert states(connection, good) == ["available"] * 2


@pytest.mark.slow
def test_twenty_thousand_rows_that_are_set_aside_cost_a_look_milliseconds(site, connection):
    aside = add_waiting(connection, MAX_ASIDE)
    connection.execute("analyze fastq.job")
    took = []
    for _ in range(20):
        (good,) = add_waiting(connection, queue="other")
        began = time.monotonic()
        ids, _, _ = site.connection.run_one("job_due", None, 20_000, aside)
        took.append(time.monotonic() - began)
        assert ids == [good]
        connection.execute("delete from fastq.job where id = $1", good)

    print(f"a look beside {MAX_ASIDE} rows set aside: median {sorted(took)[10] * 1000:.0f} ms, longest {max(took) * 1000:.0f} ms")
    assert sorted(took)[10] < 0.2


def test_a_batch_that_takes_too_long_shrinks_and_grows_again_when_it_has_recovered(database, connection, events, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.promote.BATCH", 64)
    site = site_on(database, statement_timeout=0.2)
    add_waiting(connection, 200)
    refuse(connection, [-1], doing="null; end if; perform pg_sleep(0.01); if false then null")  # 64 rows: 0.64 s
    chore = Promote()

    chore.run(site)
    chore.run(site)
    assert available(connection) == 0
    while not available(connection):
        chore.run(site)
    shrunk = [event.fields["size"] for event in events if event.name == "chore.batch_shrunk"]
    assert shrunk[:2] == [32, 16]
    connection.execute("drop trigger refuse on fastq.job")
    run_out(chore, site)

    assert available(connection) == 200
    assert [event.fields["size"] for event in events if event.name == "chore.batch_recovered"] == [64]
    site.connection.close()


def test_a_single_row_that_takes_too_long_is_set_aside(database, connection, events):
    site = site_on(database, statement_timeout=0.1)
    ids = add_waiting(connection, 4)
    refuse(connection, ids[1:2], doing="perform pg_sleep(1)")

    assert run_out(Promote(), site) == 3
    assert [event.fields["id"] for event in events if event.name == "chore.row_skipped"] == ids[1:2]
    site.connection.close()


def test_a_single_row_that_takes_too_long_is_told_of_though_many_were_refused_before(database, connection, events):
    site = site_on(database, statement_timeout=0.1)
    refused, (slow,) = add_waiting(connection, MAX_BAD + 1), add_waiting(connection, at="2001-01-01")
    listed = ", ".join(map(str, refused))
    refuse(connection, [slow], doing=f"perform pg_sleep(1); end if; if new.id in ({listed}) then raise exception 'not this one'")
    chore = Promote()
    chore._batch.size.now = len(refused)

    run_out(chore, site)

    assert [event.fields["id"] for event in events if event.name == "chore.row_skipped"][-1] == slow
    site.connection.close()


@pytest.mark.parametrize("far", ["infinity", "290000-01-01"])
def test_a_job_for_a_time_that_never_comes_ends_no_look(far, site, connection):
    add_waiting(connection, at=far)
    assert Promote().run(site) == IDLE

    due = add_waiting(connection, at="-infinity") + add_waiting(connection)
    assert run_out(Promote(), site) == 2
    assert states(connection, due) == ["available"] * 2


def test_an_error_that_is_no_rows_ends_the_run(site, connection):
    add_waiting(connection, 3)
    connection.execute("alter table fastq.job rename to elsewhere")

    with pytest.raises(Exception, match="does not exist"):
        Promote().run(site)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_million_jobs_that_are_due_in_one_second_are_promoted_in_bounded_batches(site, connection):
    million = 1_000_000
    connection.execute(
        "insert into fastq.job (kind, state, seq, scheduled_at, queue) select 'nap', 'scheduled', null, "
        f"clock_timestamp() - random() * interval '1 s', 'q' || n % 5 from generate_series(1, {million}) as n"
    )
    chore, longest, most, before = Promote(), 0.0, 0, 0
    while True:
        began = time.monotonic()
        if chore.run(site) == IDLE:
            break
        longest = max(longest, time.monotonic() - began)
        most, before = max(most, site.changed - before), site.changed

    assert site.changed == million == count(connection, "job")
    assert most == BATCH
    assert longest < 2.5, "a batch stays within a quarter of the lease's time on a busy machine too"
