"""Jobs are found by a filter, living and finished, page by page, whatever happens to them in between."""

import asyncio
import functools
import json
import random
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from fastq import AsyncClient, Client, JobFilter, Unique, admin
from fastq.admin import search
from fastq.admin.search import pages, routes, walks
from fastq.config import Config
from fastq.errors import OptionError
from fastq.jobs.job import State
from fastq.schema.partitions import ensure_partitions
from fastq.workflows.steps import chain
from tests.db.jobs import add, claim
from tests.db.test_admin import finish
from tests.db.test_client_operators import MailArgs, NapArgs

PUT = """
insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
    queue, kind, args, tags, errors, meta)
select nextval('fastq.job_id_seq'), now() - make_interval(secs => $1::float8 + n), now(),
    now() - make_interval(secs => $1::float8 + n),
    $2::fastq.state, 1, 3, 3, 0, $3::text, $4::text, json_build_object('of', n), null,
    jsonb_build_array(jsonb_build_object('error', $5::text)), '{"cause": "failed"}'
from generate_series($6::int, 1, -1) as n
returning id
"""


@pytest.fixture
def operator(database):
    """Give a connection as the commands open it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


def put(connection, count=1, *, ago=0.0, state="discarded", queue="default", kind="nap", error="boom"):
    """Put finished jobs into the archive, enqueued and ended a second after the other; return their ids, the oldest first."""
    return [job for (job,) in connection.execute(PUT, ago, state, queue, kind, error, count)]


def ids(connection, words="", **options):
    """Return the ids of all jobs that fit, page by page."""
    found, after = [], None
    while True:
        page = search.list_jobs(connection, words, after=after, **options)
        found += [job.id for job in page]
        after = page.after
        if after is None:
            return found


def test_a_list_shows_living_and_finished_jobs_newest_first(connection, operator):
    first, second, third = add(connection, 3)
    finish(connection, [second])

    page = search.list_jobs(operator)

    assert [(job.id, job.state) for job in page] == [
        (third, State.AVAILABLE),
        (second, State.COMPLETED),
        (first, State.AVAILABLE),
    ]
    assert (page.after, page.looked_until) == (None, None)


@pytest.fixture
def several(connection):
    """Give the ids of jobs that differ, by name."""
    named = {}
    (named["plain"],) = add(connection, args='{"n": 1}')
    (named["mail"],) = add(connection, kind="mail", queue="emails", tags=["a", "b"], args='{"account": {"id": 42}, "ok": true}')
    (named["later"],) = add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01", priority=3)
    (named["failing"],) = add(
        connection, state="retryable", seq=None, scheduled_at="2100-01-01", attempt=4, errors='[{"error": "OSError: Refused"}]'
    )
    (named["running"],) = add(connection, queue="other", args='{"a.b": "x y", "list": [10, 20]}')
    claim(connection, queue="other")
    (named["gated"],) = add(
        connection,
        state="waiting",
        seq=None,
        waits_for='[["limit", "mail-api", 1, 1, 20]]',
        meta=json.dumps({"gates": '[["limit", "mail-api", 1, 1, 20]]'}),
    )
    (named["done"],) = add(connection, args='{"n": 2, "none": null}')
    finish(connection, [named["done"]])
    (named["dead"],) = put(connection, kind="mail", error="ValueError: no 7 here", ago=7200.0)
    return named


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", "dead done failing gated later mail plain running"),
        ("state:completed state:discarded", "dead done"),
        ("-state:completed -state:discarded -state:available", "failing gated later running"),
        ("kind:mail", "dead mail"),
        ("-kind:mail queue:default", "done failing gated later plain"),
        ("queue:emails queue:other", "mail running"),
        ("tag:b", "mail"),
        ("tag:a tag:c", ""),
        ("-tag:a kind:mail", "dead"),
        ("priority:>1", "later"),
        ("attempt:3..4", "dead failing"),
        ("error:refused", "failing"),
        ('error:OSERROR error:"or: ref"', "failing"),
        ("state:discarded state:retryable -error:refused", "dead"),
        ("args.account.id:42", "mail"),
        ("args.ok:true", "mail"),
        ("args.n:1", "plain"),
        ("args.none:null args.n:2", "done"),
        ('args."a.b":"x y" args.list.1:20', "running"),
        ("-args.n:1 kind:nap queue:default", "done failing gated later"),
        ("meta.cause:failed", "dead"),
        ("gate:mail-api", "gated"),
        ("gate:mail", ""),
        ("state:waiting", "gated"),
        ("state:scheduled state:retryable", "failing later"),
        ("due-since:+1d", "failing later"),
        ("due-until:+1d", ""),
        ("since:1h", "done failing gated later mail plain running"),
        ("until:1h", "dead"),
        ("since:3h until:1h state:discarded", "dead"),
        ("ended-since:1h", "done"),
        ("created-until:1h", "dead"),
        ("created-since:1h state:completed", "done"),
        ("id:>6", "dead done"),
        ("id:2", "mail"),
        ("id:1..2 kind:nap", "plain"),
        ("id:99..200", ""),
    ],
)
def test_a_filter_finds_the_jobs_that_fit_it(connection, operator, several, words, names):
    found = ids(operator, words)

    assert sorted(name for name, job in several.items() if job in found) == names.split()
    assert len(found) == len(names.split())
    assert search.count_jobs(operator, words).jobs == len(found)
    assert ids(operator, words, limit=1) == found


def test_args_with_escapes_that_postgres_cannot_read_fit_no_path_and_end_no_search(connection, operator):
    (odd,) = add(connection, args=r'{"n": 1, "text": "\u0000"}')
    (half,) = add(connection, args=r'{"n": 1, "text": "\ud800"}')
    (fine,) = add(connection, args='{"n": 1}')

    assert ids(operator, "args.n:1") == [fine]
    assert ids(operator, "-args.n:1") == [half, odd]


def test_the_steps_of_a_workflow_and_the_holder_of_a_key_are_found(connection, operator, database):
    with Client(database) as client:
        add(connection, 3)
        client.enqueue_workflow(chain(NapArgs(), NapArgs()))
        job = client.enqueue(MailArgs(1), unique=Unique())
        digits = client.get(job).unique[0][:8]

        assert [job.id for job in client.jobs.list("workflow:1")] == [5, 4]
        assert [each.id for each in client.jobs.list(f"unique:{digits}")] == [int(job)]
        assert [each.id for each in client.jobs.list(f"unique:{digits} kind:nap")] == []


def test_where_an_index_names_too_many_jobs_all_are_looked_at(connection, operator, monkeypatch):
    monkeypatch.setattr(routes, "CHOSEN_MOST", 3)
    add(connection, 2)
    waiting = add(connection, 5, state="waiting", seq=None, waits_for="worker:nap")
    add(connection, 2)

    assert ids(operator, "state:waiting", limit=2) == waiting[::-1]


def test_a_search_among_jobs_that_an_index_names_goes_on_when_they_become_too_many(connection, operator, monkeypatch):
    monkeypatch.setattr(routes, "CHOSEN_MOST", 6)
    waiting = add(connection, 5, state="waiting", seq=None, waits_for="worker:nap")
    page = search.list_jobs(operator, "state:waiting", limit=2)
    add(connection, 5, state="waiting", seq=None, waits_for="worker:nap")

    rest = search.list_jobs(operator, "state:waiting", limit=50, after=page.after)

    assert [job.id for job in [*page, *rest]] == waiting[::-1]


def test_a_rare_job_is_found_far_below_the_newest(connection, operator):
    (rare,) = add(connection, kind="rare")
    (ended,) = add(connection, kind="rare")
    finish(connection, [ended])
    connection.execute("select setval('fastq.job_id_seq', 3000000)")
    newest = add(connection, 5)

    assert ids(operator, "kind:rare") == [rare, ended]  # beyond the newest ids the living come first
    assert [job.id for job in search.list_jobs(operator, limit=2)] == newest[:-3:-1]


@pytest.mark.further
@pytest.mark.parametrize("words", ["", "kind:nap", "state:discarded", "state:available", "since:1d", "state:waiting"])
@pytest.mark.parametrize("look", [1, 3, 50])
@pytest.mark.parametrize("together", [0, 7, 100_000])
def test_pages_have_each_job_once_however_little_a_look_sees(connection, operator, monkeypatch, words, look, together):
    for name in ("FEWEST", "FIRST", "MOST"):
        monkeypatch.setattr(walks, name, look)
    monkeypatch.setattr(routes, "TOGETHER", together)
    everything = [*add(connection, 5), *put(connection, 7, ago=100.0)]
    everything += add(connection, 2, state="waiting", seq=None, waits_for="x")
    everything += put(connection, 3)
    connection.execute("update fastq.job_archive set finalized_at = now() where id > 12")  # many in one moment
    fits = {"state:discarded": set(everything) - {*everything[:5], *everything[12:14]}, "state:available": {*everything[:5]}}
    fits["state:waiting"] = {*everything[12:14]}

    for limit in (1, 4, 100):
        found = ids(operator, words, limit=limit)
        assert len(found) == len(set(found))
        assert set(found) == fits.get(words, set(everything))


def test_finished_jobs_come_by_their_ends_and_only_those_of_the_time_that_is_asked_for(connection, operator):
    old = put(connection, 3, ago=3 * 86_400.0)
    new = put(connection, 3, ago=60.0)
    (oldest,) = put(connection, 1, ago=30 * 365 * 86_400.0)

    assert ids(operator, "state:discarded", limit=2) == [*new[::-1], *old[::-1], oldest]
    assert ids(operator, "state:discarded since:1d", limit=2) == new[::-1]
    assert ids(operator, "state:discarded until:1d", limit=2) == [*old[::-1], oldest]


@pytest.mark.parametrize("words", ["", "kind:nap", "state:discarded", "state:available"])
def test_pages_stay_right_while_jobs_come_end_and_go(connection, operator, words):
    """A job that is there all the time comes once; what becomes of the others changes its place no more than theirs."""
    turn = random.Random(7)
    living, ended = add(connection, 60), put(connection, 60)
    meant = {"state:discarded": {*ended[::2]}, "state:available": {*living[::2]}}.get(words, {*living[::2], *ended[::2]})
    changing, found, after = [*living[1::2], *ended[1::2]], [], None
    while True:
        page = search.list_jobs(operator, words, limit=7, after=after)
        found += [job.id for job in page]
        after = page.after
        if after is None:
            break
        add(connection, turn.randrange(3))
        change = turn.choice([admin.cancel_jobs, admin.delete_jobs, admin.retry_jobs])
        change(operator, turn.sample(changing, 3))

    stayed = [job for job in found if job in meant]
    assert sorted(stayed) == sorted(meant)
    assert len(found) == len(set(found))


def test_a_page_whose_time_is_over_says_how_far_it_came_and_goes_on(connection, operator, monkeypatch):
    for name in ("FEWEST", "FIRST", "MOST"):
        monkeypatch.setattr(walks, name, 2)
    monkeypatch.setattr(pages, "PATIENCE", -1.0)
    rare, *_ = add(connection, 1, kind="rare"), *add(connection, 9)

    page = search.list_jobs(operator, "kind:rare state:available")

    assert (page.jobs, page.looked) == ([], 2)
    assert page.looked_until is not None
    assert page.after is not None
    assert ids(operator, "kind:rare state:available") == rare
    counted = search.count_jobs(operator, "state:available")
    assert (str(counted), counted.at_least) == ("at least 2", True)


def test_a_list_that_is_locked_out_says_how_far_it_came_and_goes_on(connection, database):
    (newest,) = add(connection)
    config = Config(statement_timeout=0.5, database_url=database)
    operator = admin.connect(config, database)
    with psycopg.connect(database) as locker, Client(config=config) as client:
        locker.execute("lock table fastq.job_archive in access exclusive mode")
        for find in (functools.partial(search.list_jobs, operator), client.jobs.list):
            page = find("")
            assert (page.jobs, page.looked) == ([], 0)
            assert page.looked_until is not None
        locker.rollback()
        assert [job.id for job in client.jobs.list(after=page.after)] == [newest]
    operator.close()


def test_a_count_ends_and_says_at_least(connection, operator, monkeypatch):
    monkeypatch.setattr(pages, "MOST", 4)
    add(connection, 4)
    assert (str(search.count_jobs(operator)), search.count_jobs(operator, "kind:nap").at_least) == ("at least 4", True)

    monkeypatch.setattr(pages, "MOST", 5)

    assert (str(search.count_jobs(operator)), search.count_jobs(operator).looked_until) == ("4", None)


def test_a_cursor_belongs_to_its_filter_and_is_checked(connection, operator):
    add(connection, 3)
    after = search.list_jobs(operator, "kind:nap", limit=1).after

    for cursor, said in (
        (after, "a page of the same filter, got that of another one"),
        ("no cursor!", "expected the cursor of a page"),
        ("e30", "expected the cursor of a page"),
        ("x" * 2_000, "expected the cursor of a page"),
        (7, "expected the cursor of a page"),
    ):
        with pytest.raises(OptionError, match=said):
            search.list_jobs(operator, "kind:mail", after=cursor)
    for limit in (0, 10_001, True, "5"):
        with pytest.raises(OptionError, match="expected a whole number from 1 to 10000"):
            search.list_jobs(operator, limit=limit)


def test_spans_of_a_filter_stay_those_of_the_first_page(connection, operator):
    add(connection, 2)
    connection.execute("update fastq.job set created_at = now() - interval '59.5 s'")
    first = search.list_jobs(operator, "since:60s", limit=1)
    connection.execute("select pg_sleep(0.6)")

    second = search.list_jobs(operator, "since:60s", limit=1, after=first.after)

    assert [job.id for job in [*first, *second]] == [2, 1]
    assert search.list_jobs(operator, "since:60s").jobs == []


def test_many_jobs_that_ended_in_one_moment_are_paged_through(connection, operator, monkeypatch):
    for name in ("FEWEST", "FIRST", "MOST"):
        monkeypatch.setattr(walks, name, 10)
    ended = put(connection, 200)
    connection.execute("update fastq.job_archive set finalized_at = now()")

    assert ids(operator, "state:discarded", limit=30) == ended[::-1]


def test_jobs_of_several_days_are_found_in_their_partitions(connection, operator):
    ensure_partitions(connection)
    new, old = put(connection, 2), put(connection, 2, ago=2 * 86_400.0)

    assert ids(operator, "state:discarded", limit=1) == [*new[::-1], *old[::-1]]
    assert ids(operator, limit=1) == [*old[::-1], *new[::-1]]


def test_both_clients_list_count_and_complete(connection, database):
    jobs = [*add(connection, 3), *add(connection, 1, kind="mail", queue="emails", tags=["red"])]

    async def run():
        async with AsyncClient(database) as client:
            page = await client.jobs.list(JobFilter(kinds=["nap"]), limit=2)
            rest = await client.jobs.list(JobFilter(kinds=["nap"]), limit=2, after=page.after)
            counted = await client.jobs.count("kind:nap")
            return [job.id for job in [*page, *rest]], len(page), counted.jobs, await client.jobs.complete("kind:n")

    with Client(database) as client:
        page = client.jobs.list("kind:nap", limit=2)
        rest = client.jobs.list("kind:nap", limit=2, after=page.after)
        assert [job.id for job in [*page, *rest]] == jobs[2::-1]
        assert client.jobs.count("").jobs == 4
        assert client.jobs.complete("st") == ["state:"]
        assert client.jobs.complete("kind:mail -") == ["-state:", "-kind:", "-queue:", "-tag:", "-error:", "-args.", "-meta."]
        assert client.jobs.complete("kind:mail queue:") == ["queue:default", "queue:emails"]
        assert client.jobs.complete("-kind:m") == ["-kind:mail"]
        assert client.jobs.complete("tag:r") == ["tag:red"]
        assert client.jobs.complete("state:d") == ["state:discarded"]
        assert "created-since:" in client.jobs.complete("kind:mail ")
        assert client.jobs.complete("priority:") == []
    assert asyncio.run(run()) == (jobs[2::-1], 2, 3, ["kind:nap"])


def test_a_search_in_a_transaction_sees_what_it_has_made(connection, database):
    with Client(database) as client, connection.raw.transaction():
        job = client.enqueue(NapArgs(), conn=connection.raw)

        assert [each.id for each in client.jobs.list("kind:nap", conn=connection.raw)] == [int(job)]
        assert client.jobs.list("kind:nap").jobs == []


def test_the_words_of_moments_take_times_of_any_zone(connection, operator):
    (job,) = put(connection)
    before = (datetime.now(UTC) - timedelta(hours=1)).isoformat()

    assert ids(operator, f"ended-since:{before}") == [job]
    assert ids(operator, f"ended-until:{before}") == []


def test_a_look_grows_while_its_time_has_another_reason_than_its_rows():
    pace = walks.Pace()
    for _ in range(20):
        pace.took(0.3, pace.look)  # however few rows it reads
    grown = pace.look
    pace.took(0.9, pace.look)
    shrunk = pace.look
    quick = walks.Pace()
    quick.took(0.001, quick.look)
    quick.took(0.3, quick.look)

    assert (grown, shrunk, quick.look) == (walks.MOST, walks.MOST // 2, walks.FIRST)
