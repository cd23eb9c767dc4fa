"""Statistics in the table: what processes tell is read at once, moves from minutes to days, and is never lost nor doubled."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastq.admin import statistics
from fastq.errors import LeaseLost, OptionError
from fastq.lead.observed import statistics as chore
from fastq.lead.observed.statistics import HOURS, MINUTES, Statistics
from fastq.statistics.bins import ERROR, OF_WAITS, bin_of
from tests.db.jobs import add
from tests.db.leases import site_on, take_over
from tests.helpers import execute, wait_for

TOLD = """insert into fastq.stat (grain, at, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts)
    values (0, date_trunc('minute', now() - make_interval(secs => $1::float8)), $2, $3, $4, $5, 1, $6, 0, 0,
        array[$7::smallint], array[$5::bigint])"""
SUMS = """select sum(jobs)::bigint, sum(runs)::bigint, round(sum(run_seconds)::numeric, 3)::float8,
    (select sum(count)::bigint from fastq.stat, unnest(counts) as count) from fastq.stat"""


@pytest.fixture
def site(database):
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


def tell(connection, ago=0.0, queue="default", kind="mail", outcome="completed", jobs=1, seconds=0.5):
    """Insert a row as a process does."""
    connection.execute(TOLD, float(ago), queue, kind, outcome, jobs, jobs * seconds, bin_of(seconds))


def round_of(site):
    """Have the chore do a whole round, and note the seqs."""
    made = Statistics()
    while made.run(site) < chore.INTERVAL:
        pass


def grains(connection):
    return dict(connection.execute("select grain, count(*) from fastq.stat group by 1"))


def test_what_processes_tell_is_read_at_once_and_is_the_same_after_the_leader_has_put_it_together(site, connection):
    for number in range(20):
        tell(connection, jobs=number % 3 + 1, kind=f"kind {number % 2}", seconds=0.1 * (number + 1))
    before = statistics.stats(connection, by="kind")

    round_of(site)

    after = statistics.stats(connection, by="kind")
    assert grains(connection) == {1: 2}
    assert [row.kind for row in before] == [row.kind for row in after]
    for one, other in zip(before, after, strict=True):
        assert (one.outcomes, one.ended, one.run.timed, one.run.attempts) == (
            other.outcomes,
            other.ended,
            other.run.timed,
            other.run.attempts,
        )
        assert (one.run.p50, one.run.p99) == (other.run.p50, other.run.p99)
        assert one.run.mean == pytest.approx(other.run.mean)


def test_minutes_become_hours_and_hours_days_when_they_are_old(site, connection):
    for ago in (0, 60, MINUTES + 60, MINUTES + 120, HOURS + 90_000, HOURS + 90_060):
        tell(connection, ago)

    round_of(site)

    assert grains(connection)[1] >= 1
    assert set(grains(connection)) == {1, 2, 3}
    assert connection.execute("select count(*) from fastq.stat where grain = 2 and at <> date_trunc('hour', at)") == [(0,)]
    whole_days = (
        "select count(*) from fastq.stat where grain = 3 and at at time zone 'UTC' <> date_trunc('day', at at time zone 'UTC')"
    )
    assert connection.execute(whole_days) == [(0,)]
    assert connection.execute("select sum(jobs) from fastq.stat") == [(6,)]


def test_what_a_slow_process_tells_of_an_hour_that_was_rolled_up_is_added_to_it(site, connection):
    tell(connection, MINUTES + 4_000, jobs=2)
    round_of(site)
    tell(connection, MINUTES + 4_000, jobs=3, seconds=7.0)

    round_of(site)

    [(grain, jobs, runs, bins, counts)] = connection.execute("select grain, jobs, runs, bins, counts from fastq.stat")
    assert (grain, jobs, runs) == (2, 5, 2)
    assert dict(zip(bins, counts, strict=True)) == {bin_of(0.5): 2, bin_of(7.0): 3}


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_a_round_goes_through_all_rows_however_few_a_statement_takes(site, connection, monkeypatch, limit):
    monkeypatch.setattr(chore, "LIMIT", limit)
    for number in range(30):
        tell(connection, number % 5 * 60 + number % 2 * (MINUTES + 3_600), kind=f"kind {number % 3}")
    [before] = connection.execute(SUMS)

    round_of(site)

    assert connection.execute(SUMS) == [before]
    assert 0 not in grains(connection)


ROWS = st.tuples(
    st.sampled_from([0.0, 60.0, 3_600.0, MINUTES + 100, MINUTES + 5_000, HOURS + 4_000, HOURS + 100_000]),
    st.sampled_from(["mail", "report"]),
    st.sampled_from(["completed", "retryable", "discarded"]),
    st.integers(1, 200),
    st.floats(0.001, 100.0),
)


@given(st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=4), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_leaders_that_follow_each_other_lose_nothing_and_double_nothing_whenever_rows_come(database, arrivals, data):
    execute(database, "truncate fastq.stat, fastq.lease")
    leader, told = site_on(database, name="schema"), 0
    try:
        for rows in arrivals:
            for ago, kind, outcome, jobs, seconds in rows:
                tell(leader.connection, ago, kind=kind, outcome=outcome, jobs=jobs, seconds=seconds)
                told += jobs
            made, steps = Statistics(), data.draw(st.integers(0, 5))
            for _ in range(steps):  # and then it dies
                made.run(leader)
            stale = leader.fence
            leader.fence = take_over(leader.connection, stale)
            present, leader.fence = leader.fence, stale
            with pytest.raises(LeaseLost):
                made.run(leader)
            leader.fence = present
        round_of(leader)
        assert leader.connection.execute("select coalesce(sum(jobs), 0)::bigint from fastq.stat") == [(told,)]
        [(counted,)] = leader.connection.execute(
            "select coalesce(sum(count), 0)::bigint from fastq.stat, unnest(counts) as count"
        )
        assert counted == told
        twice = "select 1 from fastq.stat group by grain, at, queue, kind, outcome having count(*) > 1"
        assert leader.connection.execute(twice) == []
    finally:
        leader.connection.close()


def test_a_statement_that_dies_half_way_leaves_each_count_where_it_was(site, connection, other):
    tell(connection, jobs=5)
    site.connection.execute("begin")
    site.write("stat_roll", 0, 1, "minute", 0.0, 100)
    other.execute("select pg_terminate_backend($1)", site.connection.backend_pid)
    wait_for(lambda: not other.execute("select 1 from pg_stat_activity where pid = $1", site.connection.backend_pid))

    assert connection.execute("select grain, jobs from fastq.stat") == [(0, 5)]


def test_rows_are_appended_while_the_leader_moves_others_and_neither_waits(site, connection, other):
    other.execute("set lock_timeout = '1ms'")
    tell(connection, jobs=5)
    site.connection.execute("begin")
    site.write("stat_roll", 0, 1, "minute", 0.0, 100)

    tell(other, jobs=3)

    site.connection.execute("commit")
    assert connection.execute("select sum(jobs) from fastq.stat") == [(8,)]


def test_the_days_go_when_their_time_is_over(site, connection):
    site.config = site.config.__class__(stats_days=30.0)
    for days in (10, 29, 31, 400):
        tell(connection, days * 86_400)

    round_of(site)

    assert connection.execute("select count(*), min(at) > now() - interval '31 days' from fastq.stat") == [(2, True)]


def test_notes_of_seqs_are_made_only_when_some_were_given_out_and_the_first_stays_for_ever(site, connection):
    assert connection.execute("select count(*) from fastq.stat_due") == [(1,)]
    for _ in range(3):
        site.write("stat_note")
    assert connection.execute("select count(*) from fastq.stat_due") == [(1,)]

    add(connection, 3)
    for _ in range(3):
        site.write("stat_note")
    [(last,)] = connection.execute("select last_value from fastq.job_seq")
    assert connection.execute("select max(first_seq), count(*) from fastq.stat_due") == [(last + 1, 2)]

    connection.execute("update fastq.stat_due set at = at - interval '1 day'")
    round_of(site)
    assert connection.execute("select count(*) from fastq.stat_due where at < now() - interval '12 hours'") == [(1,)]


def test_a_promotion_notes_the_seqs_that_it_gave_and_when_the_jobs_were_due(database, connection):
    add(connection, 2, state="scheduled", seq=None, scheduled_at="2026-01-01 00:00Z")
    add(connection, 1, state="scheduled", seq=None, scheduled_at="2026-01-01 00:00:10Z")
    add(connection, 1, state="scheduled", seq=None, scheduled_at="2026-01-01", meta='{"gates": "[]"}')
    leader = site_on(database)

    leader.write("job_promote", None, [1, 2, 3, 4], "fastq")

    [(low, high)] = connection.execute("select min(seq), max(seq) from fastq.job where seq is not null")
    [(first, last, at)] = connection.execute("select first_seq, last_seq, at from fastq.stat_due where last_seq is not null")
    assert (first, last, high - low) == (low, high, 2)
    assert at == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC), "the last of them was"
    leader.connection.close()


def test_a_promotion_of_none_notes_nothing(database, connection):
    leader = site_on(database)

    leader.write("job_promote", None, [1, 2], "fastq")

    assert connection.execute("select count(*) from fastq.stat_due where last_seq is not null") == [(0,)]
    leader.connection.close()


def test_rows_are_grouped_by_queue_by_kind_and_by_time(connection):
    tell(connection, 0, "a", "mail", jobs=3)
    tell(connection, 0, "a", "mail", "retryable", jobs=2)
    tell(connection, 600, "b", "mail", "discarded", jobs=4)
    tell(connection, 600, "b", "report", jobs=5)

    [whole] = statistics.stats(connection)
    assert whole.outcomes == {"completed": 8, "discarded": 4, "retryable": 2}
    assert (whole.queue, whole.kind, whole.ended, whole.failed) == (None, None, 12, 6)
    assert whole.rate == pytest.approx(12 / whole.seconds)
    assert 3_600 <= whole.seconds < 3_661
    assert {(row.queue, row.ended) for row in statistics.stats(connection, by="queue")} == {("a", 3), ("b", 9)}
    assert {(row.kind, row.ended) for row in statistics.stats(connection, by="kind")} == {("mail", 7), ("report", 5)}
    assert [row.ended for row in statistics.stats(connection, step="minute")] == [9, 3]
    assert [row.ended for row in statistics.stats(connection, kind="mail", step="minute")] == [4, 3]
    assert [row.ended for row in statistics.stats(connection, since=timedelta(minutes=5), queue="a")] == [3]
    assert statistics.stats(connection, since=datetime.now(UTC) - timedelta(minutes=5), queue="b") == []
    assert statistics.stats(connection, kind="unknown") == []


def test_the_rate_of_a_span_that_is_not_over_is_that_of_the_time_that_has_passed(connection):
    tell(connection, jobs=600)
    tell(connection, 120, jobs=600)

    past, present = statistics.stats(connection, step="minute")

    assert (past.seconds, past.rate) == (60.0, 10.0)
    assert 0 <= present.seconds <= 60


def test_percentiles_are_those_of_running_and_of_waiting_times_apart(connection):
    connection.execute(
        "insert into fastq.stat values (date_trunc('minute', now()), 0, 'q', 'k', 'completed', 100, 10, 60.0, 5, 900.0, $1, $2)",
        [bin_of(0.5), bin_of(8.0), OF_WAITS + bin_of(2.0), OF_WAITS + bin_of(30.0)],
        [95, 5, 90, 10],
    )

    [row] = statistics.stats(connection)

    assert (row.run.timed, row.run.attempts, row.run.mean) == (10, 100, 0.6)
    assert (row.wait.timed, row.wait.attempts, row.wait.mean) == (5, 100, 9.0)
    for found, true in ((row.run.p50, 0.5), (row.run.p95, 0.5), (row.run.p99, 8.0), (row.wait.p50, 2.0), (row.wait.p95, 30.0)):
        assert true / (1 + ERROR) <= found <= true * (1 + ERROR)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"since": 0}, "expected a time with a zone"),
        ({"since": "1h"}, "expected a time with a zone"),
        ({"since": True}, "expected a time with a zone"),
        ({"since": datetime(2026, 1, 1)}, "expected a time with a zone"),  # noqa: DTZ001 - that is the mistake
        ({"by": "host"}, "by 'host': expected 'queue', 'kind' or None"),
        ({"step": "week"}, "step 'week': expected 'minute', 'hour', 'day' or None"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(connection, given, told):
    with pytest.raises(OptionError, match=told):
        statistics.stats(connection, **given)


def test_living_jobs_are_counted_up_to_a_limit_that_is_told(connection):
    add(connection, 30, queue="large")
    add(connection, 3, queue="small")
    add(connection, 2, queue="small", state="scheduled", seq=None, scheduled_at="2100-01-01")

    assert {(row.queue, row.available, row.scheduled, row.at_least) for row in statistics.living(connection)} == {
        ("large", 30, 0, False),
        ("small", 3, 2, False),
    }
    counted = {row.queue: row for row in statistics.living(connection, 10)}
    assert (counted["large"].available, counted["large"].at_least) == (10, True)
    assert (counted["small"].available, counted["small"].at_least) == (3, False)
    with pytest.raises(OptionError, match="expected a number of jobs"):
        statistics.living(connection, 0)


def test_two_leaders_at_once_are_one_after_the_other(database, connection, other):
    """The fence lets a candidate wait for the statement under way; whichever comes second finds the rows where they are."""
    tell(connection, jobs=7)
    site = site_on(database, name="schema")
    site.connection.execute("begin")
    site.write("stat_roll", 0, 1, "minute", 0.0, 100)
    fences = []
    thread = threading.Thread(target=lambda: fences.append(take_over(other, site.fence)))
    thread.start()
    wait_for(
        lambda: connection.execute(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = $1", other.backend_pid
        )
    )
    site.connection.execute("commit")
    thread.join()

    second = [other.run_one("stat_roll", *fences[0], 0, 1, "minute", 0.0, 100)]

    assert second == [(1, 0, 0)]
    assert connection.execute("select grain, jobs from fastq.stat") == [(1, 7)]
    site.connection.close()
