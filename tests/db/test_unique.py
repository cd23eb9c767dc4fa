"""Unique jobs as the client sees them: one job of a key at a time, until the key is given up."""

import asyncio
import json
import threading
from dataclasses import dataclass, field

import asyncpg
import msgspec
import psycopg
import pydantic
import pydantic.alias_generators
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from fastq import Args, AsyncClient, Client, Enqueue, Enqueued, Kind, State, Unique, admin
from fastq.admin import Change
from fastq.args.gates import Limit
from fastq.errors import ArgsError, DuplicateJob, OptionError
from fastq.events import subscribe
from fastq.sql.statements import statement
from tests.db.jobs import add, archived, claim, claim_number, count, living
from tests.db.leases import lead
from tests.helpers import wait_for


@dataclass
class SyncArgs(Args, kind="sync", unique=Unique("account")):
    account: int
    note: str = ""


@dataclass
class MailArgs(Args, kind="mail"):
    account: int
    texts: list[str] = field(default_factory=list)


@dataclass
class SendArgs(Args, kind="send", gates=[Limit("mail", at_most=1, by="server")]):
    account: int
    server: str


CLAIM = claim_number(1, 77)  # of a process that shows no life: it has no row
COLLECT = Unique("account", then="collect", into="texts")


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


def finish(connection, job_id, state="completed"):
    """Claim one job and end it."""
    claim(connection, 77)
    error = None if state == "completed" else '{"error": "boom"}'
    connection.run_one("job_finish", [job_id], [77], [state], [error], [None], None)
    assert archived(connection, job_id)["state"] == state


def expire(connection):
    """Have the time of each key that is held for a time be over."""
    connection.execute("update fastq.unique_key set expires_at = clock_timestamp() - interval '1 second'")


def test_a_second_job_with_the_key_is_not_made_and_the_caller_learns_who_has_it(client, connection):
    first = client.enqueue(SyncArgs(1, "one"))
    second = client.enqueue(SyncArgs(1, "two"))
    other = client.enqueue(SyncArgs(2))

    assert (first.new, first.why, first.state) == (True, "new", None)
    assert (second, second.new, second.why, second.state) == (first, False, "kept", State.AVAILABLE)
    assert (type(other), other, other.new) == (Enqueued, first + 1, True)  # and the duplicate took no id
    assert count(connection, "job") == 2
    assert client.get(first).args["note"] == "one"


def test_an_async_client_and_callers_connections_do_the_same(client, database, connection):
    async def enqueue():
        async with AsyncClient(database) as other:
            return [await other.enqueue(SyncArgs(1)), *await other.enqueue_many([SyncArgs(1), SyncArgs(2), SyncArgs(2)])]

    told = asyncio.run(enqueue())
    with psycopg.connect(database) as own:
        told.append(client.enqueue(SyncArgs(3), conn=own))
        told.append(client.enqueue(SyncArgs(3), conn=own))
        own.rollback()
        told.append(client.enqueue(SyncArgs(3), conn=own))

    assert [job.new for job in told] == [True, False, True, False, True, False, True]
    assert told[4] == told[5] != told[6]
    assert count(connection, "unique_key") == 3


def test_each_library_carries_all_that_is_done_with_unique_jobs(client, database, connection):
    """No driver asks the server about a type; where a connection is not UTF-8, the text is ASCII."""

    def jobs():
        yield SyncArgs(1, "é"), Unique("account")
        for then in ("keep", "replace", "cancel"):
            yield SyncArgs(1, "é"), Unique("account", then=then)
        for note in ("é", "ü"):
            yield MailArgs(1, [note]), COLLECT
        yield SyncArgs(1), Unique("account", until="success")

    async def with_asyncpg():
        own = await asyncpg.connect(database)
        told = [await AsyncClient(database).enqueue(args, unique=unique, conn=own) for args, unique in jobs()]
        await own.close()
        return told

    async def with_sqlalchemy():
        engine = create_async_engine(database.replace("postgresql://", "postgresql+asyncpg://"))
        async with engine.begin() as own:
            told = [await AsyncClient(database).enqueue(args, unique=unique, conn=own) for args, unique in jobs()]
        await engine.dispose()
        return told

    def with_latin1():
        with psycopg.connect(database, client_encoding="LATIN1", autocommit=True) as own:
            return [client.enqueue(args, unique=unique, conn=own) for args, unique in jobs()]

    found = []
    for way in (lambda: asyncio.run(with_asyncpg()), lambda: asyncio.run(with_sqlalchemy()), with_latin1):
        connection.execute("truncate fastq.job, fastq.job_archive, fastq.unique_key restart identity")
        told = way()
        found.append([(int(job), job.new, job.why, job.cancelled) for job in told])
        assert [row[0] for row in connection.execute("select args ->> 'note' from fastq.job where kind = 'sync'")] == ["é"]
        assert connection.execute("select args -> 'texts' ->> 1 from fastq.job where kind = 'mail'") == [("ü",)]

    expected = [(1, True, "new", None), (1, False, "kept", None), (1, False, "replaced", None), (2, True, "new", 1)]
    assert found == [[*expected, (3, True, "new", None), (3, False, "collected", None), (2, False, "kept", None)]] * 3


def test_many_jobs_tell_one_by_one_and_those_with_one_key_are_folded(client, connection):
    plain = client.enqueue_many([MailArgs(1), MailArgs(2)])
    told = client.enqueue_many([SyncArgs(1, "a"), MailArgs(7), SyncArgs(1, "b"), SyncArgs(2), SyncArgs(1, "c")])

    assert [type(job) for job in plain] == [int, int]
    assert told == [3, 4, 3, 5, 3]
    assert [(job.new, job.state) for job in told[:3]] == [(True, None), (True, None), (False, State.AVAILABLE)]
    assert [job.new for job in told[3:]] == [True, False]
    assert count(connection, "job") == 5
    assert client.get(3).args["note"] == "a"
    assert [job.new for job in client.enqueue_many([SyncArgs(2), SyncArgs(3)])] == [False, True]


def test_a_copy_takes_no_unique_jobs_and_says_so(client, connection):
    with pytest.raises(OptionError, match=r"enqueue_copy takes no unique jobs.*use enqueue_many"):
        client.enqueue_copy([MailArgs(1), SyncArgs(1)])

    assert count(connection, "job") == 0


@pytest.mark.parametrize("state", ["completed", "cancelled", "discarded"])
@pytest.mark.parametrize(("until", "free"), [("end", True), ("success", None), ("start", True)])
def test_a_key_is_given_up_at_the_end_that_it_is_held_until(client, connection, until, free, state):
    unique = Unique("account", until=until)
    first = client.enqueue(SyncArgs(1), unique=unique)
    finish(connection, first, state)

    second = client.enqueue(SyncArgs(1), unique=unique)

    assert second.new is (state == "completed" if free is None else free)
    assert second.new or (second, second.state, second.why) == (first, None, "kept")


def test_a_key_held_until_the_start_is_given_up_by_the_claim_and_stays_given_up(client, connection):
    unique = Unique("account", until="start")
    first = client.enqueue(SyncArgs(1), unique=unique)
    assert not client.enqueue(SyncArgs(1), unique=unique).new
    claim(connection, 77)

    second = client.enqueue(SyncArgs(1), unique=unique)
    connection.run_one("job_retry", [first], [77], [60.0], [True], ['{"error": "boom"}'], None)

    assert second.new
    assert living(connection, first)["state"] == "retryable"
    assert client.enqueue(SyncArgs(1), unique=unique) == second
    assert client.retry(first)


def test_a_key_goes_with_its_job_however_that_went(client, connection):
    """sidekiq-unique-jobs #861: a lock outlived its job where a process was killed, for nobody was left to give it back."""
    first = client.enqueue(SyncArgs(1))
    connection.execute("delete from fastq.job where id = $1", first)

    assert client.enqueue(SyncArgs(1)).new


@pytest.mark.parametrize("how", ["promote", "rescue", "retry", "release", "recover"])
def test_a_job_whose_key_another_one_has_by_now_holds_up_none_of_five_thousand(client, connection, how):
    """Oban #1259, Oban Pro #1416, awa #388, procrastinate #1446, River #619: it took its key again, and the batch failed."""
    unique = Unique("account", until="start")
    first = client.enqueue(SyncArgs(1), unique=unique)
    add(connection, 4999)
    ids = sorted(job.id for job in claim(connection, CLAIM, limit=6000))
    second = client.enqueue(SyncArgs(1), unique=unique)
    assert (second.new, len(ids)) == (True, 5000)
    fence = lead(connection)
    done = {
        "promote": lambda: connection.run_one("job_promote", *fence, None, ids, None)[1],
        "rescue": lambda: connection.run_one(
            "job_rescue", *fence, None, "default", ids, [CLAIM] * 5000, [1] * 5000, None, '{"error": "lost"}'
        )[1],
        "retry": lambda: connection.run_one(
            "job_retry", ids, [CLAIM] * 5000, [0.0] * 5000, [True] * 5000, ['{"error": "boom"}'] * 5000, None
        )[0],
        "release": lambda: connection.run_one("job_release", ids, [CLAIM], None)[0],
        "recover": lambda: connection.run_one(
            "job_recover", ids, None, 0, "default", [], 3, 1, None, '{"error": "died"}', [], '{"error": "died"}'
        )[0],
    }
    if how == "promote":
        connection.execute("update fastq.job set state = 'retryable', seq = null, scheduled_at = now() where state = 'running'")

    assert done[how]() == 5000
    assert {job.id for job in claim(connection, CLAIM, limit=6000)} == {*ids, second}
    assert first in ids


@pytest.mark.parametrize("how", ["snooze", "failure", "release"])
def test_a_key_is_held_over_retries_snoozes_and_releases(client, connection, how):
    first = client.enqueue(SyncArgs(1))
    claim(connection, 77)
    if how == "release":
        connection.run_one("job_release", [first], [77], None)
    else:
        connection.run_one("job_retry", [first], [77], [60.0], [how == "failure"], ['{"error": "boom"}'], None)

    second = client.enqueue(SyncArgs(1))

    assert (second, second.new) == (first, False)
    assert second.state == {"snooze": "scheduled", "failure": "retryable", "release": "available"}[how]


def test_within_holds_the_key_for_a_time_whatever_becomes_of_the_job(client, connection):
    unique = Unique("account", within=3600)
    first = client.enqueue(SyncArgs(1), unique=unique, delay=7200)
    [[left]] = connection.execute("select extract(epoch from expires_at - clock_timestamp())::int from fastq.unique_key")
    assert 7200 + 3500 < left <= 7200 + 3600  # from when it is due
    client.retry(first)
    finish(connection, first)

    second = client.enqueue(SyncArgs(1), unique=unique)
    assert (second, second.new, second.state) == (first, False, None)
    expire(connection)

    third = client.enqueue(SyncArgs(1), unique=unique)
    assert third.new
    assert client.enqueue(SyncArgs(1), unique=unique) == third


def test_within_and_until_give_the_key_up_at_what_comes_first(client, connection):
    unique = Unique("account", within=3600, until="end")
    first = client.enqueue(SyncArgs(1), unique=unique)
    finish(connection, first)
    second = client.enqueue(SyncArgs(1), unique=unique)
    assert second.new
    expire(connection)

    assert client.enqueue(SyncArgs(1), unique=unique).new
    assert living(connection, second)["state"] == "available"


def test_the_scope_says_which_jobs_have_one_key(client):
    def new(args, scope, queue="default"):
        return client.enqueue(args, unique=Unique("account", scope=scope), queue=queue).new

    assert [new(SyncArgs(1), "kind"), new(MailArgs(1), "kind"), new(SyncArgs(1), "kind", "other")] == [True, True, False]
    assert [new(SyncArgs(1), "queue"), new(MailArgs(1), "queue"), new(SyncArgs(1), "queue", "other")] == [True, False, True]
    assert [new(SyncArgs(1), "schema"), new(MailArgs(1), "schema"), new(SyncArgs(1), "schema", "other")] == [True, False, False]


def test_a_refused_duplicate_raises_and_leaves_nothing_of_its_batch(client, connection, database):
    unique = Unique("account", then="raise")
    first = client.enqueue(SyncArgs(1), unique=unique)

    with pytest.raises(DuplicateJob, match=rf"^job {first} \(available\) holds the key") as one:
        client.enqueue(SyncArgs(1), unique=unique)
    with pytest.raises(DuplicateJob, match=rf"^at position 1: job {first}") as many:
        client.enqueue_many([SyncArgs(2), SyncArgs(1)], unique=unique)
    with pytest.raises(DuplicateJob, match=r"^at position 1: an element before it has the same key"):
        client.enqueue_many([SyncArgs(2), SyncArgs(2)], unique=unique)

    with psycopg.connect(database) as own:
        with pytest.raises(DuplicateJob, match=rf"^at position 1: job {first}"):
            client.enqueue_many([SyncArgs(2), SyncArgs(1), MailArgs(3)], unique=unique, conn=own)
        own.commit()  # the caller may go on

    assert (one.value.holder, one.value.state, many.value.position) == (first, "available", 1)
    assert count(connection, "job") == count(connection, "unique_key") == 1


def test_replace_changes_a_job_that_has_not_started(client, connection):
    unique = Unique("account", then="replace")
    first = client.enqueue(SyncArgs(1, "a"), unique=unique)
    second = client.enqueue(SyncArgs(1, "é"), unique=unique, priority=2, max_attempts=3, tags=["x"], delay=60)
    told = living(connection, first)

    assert (second, second.new, second.why) == (first, False, "replaced")
    assert (told["args"], told["priority"], told["max_attempts"], told["tags"]) == ({"account": 1, "note": "é"}, 2, 3, ["x"])
    assert (told["state"], told["seq"]) == ("scheduled", None)

    client.enqueue_many([SyncArgs(1, "c"), SyncArgs(1, "d")], unique=unique)
    told = living(connection, first)
    assert (told["args"]["note"], told["state"], told["scheduled_at"], told["priority"]) == ("d", "available", None, 1)

    claim(connection, 77)
    third = client.enqueue(SyncArgs(1, "e"), unique=unique)
    assert (third, third.new, third.why, third.state) == (first, False, "started", State.RUNNING)
    assert living(connection, first)["args"]["note"] == "d"


def test_replace_until_the_start_enqueues_another_job_once_the_first_has_started(client, connection):
    client.enqueue(SyncArgs(1, "a"), unique=Unique("account"))  # of an older declaration
    claim(connection, 77)

    second = client.enqueue(SyncArgs(1, "b"), unique=Unique("account", then="replace", until="start"))

    assert (second, second.new) == (2, True)


def test_a_job_of_another_kind_is_not_replaced(client, connection):
    """River #1421: a duplicate that was skipped across kinds changed the other job's kind."""
    first = client.enqueue(MailArgs(1), unique=Unique("account", scope="schema"))
    second = client.enqueue(SyncArgs(1), unique=Unique("account", scope="schema", then="replace"))

    assert (second, second.why) == (first, "kept")
    assert living(connection, first)["kind"] == "mail"


def test_debounce_puts_a_job_off_but_not_for_ever(client, connection):
    unique = Unique("account", then="debounce", longest=100)

    def due():
        return connection.execute("select extract(epoch from scheduled_at - created_at)::int from fastq.job where id = 1")[0][0]

    client.enqueue(SyncArgs(1, "a"), unique=unique, delay=30)
    connection.execute("update fastq.unique_key set since = since - interval '80 s'")
    connection.execute("update fastq.job set created_at = created_at - interval '80 s'")
    second = client.enqueue(SyncArgs(1, "b"), unique=unique, delay=10)
    assert (second, second.why, 89 <= due() <= 95) == (1, "debounced", True)
    client.enqueue(SyncArgs(1, "c"), unique=unique, delay=60)
    assert (99 <= due() <= 101, living(connection, 1)["args"]["note"]) == (True, "c")

    claim(connection, 77, after=(0, 0, 0, 0))
    client.retry(1)
    claim(connection, 77)
    assert client.enqueue(SyncArgs(1, "d"), unique=unique, delay=30).new  # the first has started and would not see it


def test_collect_appends_to_a_job_that_has_not_started_up_to_a_bound(client, connection):
    unique = Unique("account", then="collect", into="texts", most=4, most_bytes=200)

    def texts(job_id):
        return connection.execute("select args::text from fastq.job where id = $1", job_id)[0][0]

    first = client.enqueue(MailArgs(1, ["a", 'é"[1]']), unique=unique)
    second = client.enqueue(MailArgs(1, []), unique=unique)
    third = client.enqueue(MailArgs(1, ["c"]), unique=unique)
    assert (second, second.why, third, third.new) == (first, "collected", first, False)
    assert texts(first) == '{"account":1,"texts":["a","é\\"[1]","c"]}'

    fourth = client.enqueue(MailArgs(1, ["d", "e"]), unique=unique)  # five are too many
    assert (fourth.new, texts(first)) == (True, '{"account":1,"texts":["a","é\\"[1]","c"]}')
    assert client.enqueue(MailArgs(1, ["x" * 200]), unique=unique).new  # too long
    assert client.enqueue_many([MailArgs(2, [str(number)]) for number in range(6)], unique=unique) == [4, 4, 4, 4, 5, 5]
    assert (texts(4), texts(5)) == ('{"account":2,"texts":["0","1","2","3"]}', '{"account":2,"texts":["4","5"]}')

    claim(connection, 77)
    assert client.enqueue(MailArgs(2, ["late"]), unique=unique).new


class RenamedStruct(msgspec.Struct, rename="kebab"):
    account: int
    some_texts: list[str]


class RenamedModel(pydantic.BaseModel, alias_generator=pydantic.alias_generators.to_camel, populate_by_name=True):
    account: int
    some_texts: list[str]


@pytest.mark.parametrize("type_", [RenamedStruct, RenamedModel])
def test_collect_goes_by_the_field_whatever_its_name_in_json_is(client, connection, type_):
    kind = Kind("renamed", type_, unique=Unique("account", then="collect", into="some_texts"))

    first = client.enqueue(type_(account=1, some_texts=["a"]), kind=kind)
    many = client.enqueue_many([type_(account=1, some_texts=[text]) for text in "bc"], kind=kind)

    assert many == [first, first]
    [(stored,)] = connection.execute("select args::text from fastq.job")
    assert kind.codec.decode(stored.encode()).some_texts == ["a", "b", "c"]


def test_collect_needs_a_list(client):
    @dataclass
    class PerhapsArgs(Args, kind="perhaps"):
        account: int
        texts: list[str] | None = None

    with pytest.raises(OptionError, match="into='account': expected a field that is a list, got int"):
        client.enqueue(MailArgs(1), unique=Unique("texts", then="collect", into="account"))
    with pytest.raises(ArgsError, match=r"field 'texts'.*expected a list"):
        client.enqueue(PerhapsArgs(1), unique=Unique("account", then="collect", into="texts"))


def test_cancel_ends_the_job_that_holds_the_key_and_enqueues_the_new_one(client, connection):
    unique = Unique("account", then="cancel")
    first = client.enqueue(SyncArgs(1), unique=unique)
    second = client.enqueue(SyncArgs(1), unique=unique)
    assert (second.new, second.cancelled, archived(connection, first)["state"]) == (True, first, "cancelled")
    claim(connection, 77)

    third = client.enqueue(SyncArgs(1), unique=unique)
    assert (third.new, third.cancelled, living(connection, second)["cancel_requested"]) == (True, second, True)

    connection.run_one("job_finish", [second], [77], ["cancelled"], [None], [None], None)
    assert client.enqueue(SyncArgs(1)) == third  # the end of the old one gives up nothing


def test_a_job_that_goes_through_gates_gives_its_room_back_when_it_is_replaced(client, connection):
    unique = Unique("account", then="replace")

    def told():
        text = "select gates, jobs, job is null from fastq.gate_event order by id"
        rows = [(json.loads(gates)[0][2], jobs, leaves) for gates, jobs, leaves in connection.execute(text)]
        connection.execute("delete from fastq.gate_event")
        return rows

    first = client.enqueue(SendArgs(1, "a"), unique=unique)
    assert (first.new, living(connection, first)["state"], told()) == (True, "waiting", [("a", 1, False)])
    client.enqueue(SendArgs(1, "a"), unique=unique)
    assert told() == []
    client.enqueue(SendArgs(1, "b"), unique=unique)
    assert (json.loads(living(connection, first)["waits_for"])[0][2], told()) == ("b", [("b", 1, False)])

    connection.execute(
        "insert into fastq.gate_permit (job, queue, gates) select id, queue, waits_for from fastq.job; "
        "update fastq.job set state = 'available', seq = 1, waits_for = null"
    )
    client.enqueue(SendArgs(1, "b"), unique=unique)
    assert (living(connection, first)["state"], told()) == ("available", [])
    client.enqueue(SendArgs(1, "b"), unique=unique, delay=60)
    assert (living(connection, first)["state"], told()) == ("scheduled", [("b", 1, True)])
    assert connection.execute("select count(*) from fastq.gate_permit") == [(0,)]


def test_an_enqueue_waits_for_a_holder_that_is_not_committed(client, database):
    told = []
    with psycopg.connect(database) as own:
        client.enqueue(SyncArgs(1), conn=own)
        waiting = threading.Thread(target=lambda: told.append(client.enqueue(SyncArgs(1))))
        waiting.start()
        text = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'fastq client'"
        with psycopg.connect(database, autocommit=True) as watching:
            wait_for(lambda: watching.execute(text).fetchone()[0], what="the enqueue to wait")
        assert told == []
        own.commit()
    waiting.join()

    assert [(job, job.new) for job in told] == [(1, False)]


def test_an_enqueue_takes_the_key_when_its_holder_is_rolled_back(client, database):
    told = []
    with psycopg.connect(database) as own:
        client.enqueue(SyncArgs(1), conn=own)
        waiting = threading.Thread(target=lambda: told.append(client.enqueue(SyncArgs(1))))
        waiting.start()
        text = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'fastq client'"
        with psycopg.connect(database, autocommit=True) as watching:
            wait_for(lambda: watching.execute(text).fetchone()[0], what="the enqueue to wait")
        own.rollback()
    waiting.join()

    assert [(job, job.new) for job in told] == [(2, True)]


def test_one_job_of_many_may_be_unique(client):
    told = client.enqueue_many([Enqueue(MailArgs(1), unique=Unique()), MailArgs(1), Enqueue(MailArgs(1), unique=Unique())])

    assert (told, [job.new for job in told]) == ([1, 2, 1], [True, True, False])


def test_a_held_key_in_a_batch_of_thousands_holds_up_nobody(client, database, connection):
    """pg-boss #535, #536: a batch with one conflict among its jobs blocked all fetching."""
    with psycopg.connect(database) as own:  # a transaction that holds the key of one, and does not end
        held = client.enqueue(SyncArgs(2500), conn=own)
        own.commit()
        told = client.enqueue_many([SyncArgs(number) for number in range(5000)])
        assert sum(job.new for job in told) == 4999
        told = client.enqueue_many([SyncArgs(number, "new") for number in range(5000)], unique=Unique("account", then="replace"))
        assert {job.why for job in told} == {"replaced"}
        client.enqueue(SyncArgs(5001), conn=own)

        jobs = claim(connection, 77, limit=6000)
        connection.run("job_complete_archive", [job.id for job in jobs], [77])

    assert len(jobs) == 5000
    assert held in {job.id for job in jobs}
    assert count(connection, "job_archive") == 5000


def test_a_job_that_has_ended_runs_once_more_only_if_nobody_holds_its_key(client, connection):
    first = client.enqueue(SyncArgs(1))
    finish(connection, first, "discarded")
    second = client.enqueue(SyncArgs(1))
    assert second.new

    with pytest.raises(DuplicateJob, match=rf"^job {second} holds the key") as refused:
        client.retry(first)
    assert (refused.value.holder, admin.retry_jobs(connection, [first])) == (
        second,
        [Change(first, None, "held", second)],
    )
    assert archived(connection, first)["state"] == "discarded"

    finish(connection, second)
    assert client.retry(first)
    assert (client.enqueue(SyncArgs(1)), living(connection, first)["state"]) == (first, "available")


def scans_of_holders(plan):
    """Return how often the archive was looked at for an unsuccessful holder of a key, by partition."""
    mine = plan.get("Relation Name", "").startswith("job_archive") and "'completed'" in str(plan)
    below = [scan for child in plan.get("Plans", ()) for scan in scans_of_holders(child)]
    return [*([plan["Actual Loops"]] if mine and "Plans" not in plan else []), *below]


@pytest.mark.parametrize(("until", "looks"), [("end", 0), ("success", 1)])
def test_the_archive_is_asked_about_the_holder_of_a_key_only_where_its_success_matters(client, connection, until, looks):
    unique = Unique("account", until=until)
    first = client.enqueue(SyncArgs(1), unique=unique)
    finish(connection, first)
    second = client.enqueue(SyncArgs(1), unique=unique)
    assert second.new

    text = f"explain (analyze, format json) {statement('job_rerun')}"
    [[plan]] = connection.execute(text, [int(first)], None)[0]

    assert scans_of_holders(plan["Plan"]) == [looks]


def test_a_job_takes_its_key_again_with_its_next_run_whether_the_key_was_swept_or_not(client, connection):
    first, second = client.enqueue_many([SyncArgs(1), SyncArgs(2)])
    for job_id in (first, second):
        finish(connection, job_id)
    connection.execute("delete from fastq.unique_key where job_id = $1", second)

    assert [change.outcome for change in admin.retry_jobs(connection, [first, second])] == ["available", "available"]
    assert client.enqueue_many([SyncArgs(1), SyncArgs(2)]) == [first, second]


def test_of_two_jobs_with_one_key_one_runs_once_more(client, connection):
    first = client.enqueue(SyncArgs(1))
    finish(connection, first)
    second = client.enqueue(SyncArgs(1))
    finish(connection, second)

    changes = admin.retry_jobs(connection, [second, first])

    assert changes == [Change(second, None, "held", first), Change(first, State.COMPLETED, "available")]
    assert client.enqueue(SyncArgs(1)) == first


@pytest.mark.parametrize("unique", [Unique("account", until="start"), Unique("account", within=60)], ids=["start", "time"])
def test_a_job_that_has_given_up_its_key_before_its_end_runs_once_more_without_it(client, connection, unique):
    first = client.enqueue(SyncArgs(1), unique=unique)
    finish(connection, first)
    expire(connection)
    second = client.enqueue(SyncArgs(1), unique=unique)

    assert second.new
    assert client.retry(first)
    assert client.enqueue(SyncArgs(1), unique=unique) == second


def test_an_operator_gives_up_a_key_by_hand(client, connection):
    unique = Unique("account", until="success")
    first = client.enqueue(SyncArgs(1), unique=unique)
    finish(connection, first, "discarded")
    [row] = admin.list_keys(connection)

    assert (row.job_id, row.state, row.kind, row.until, row.args_json) == (
        first,
        "discarded",
        "sync",
        "success",
        '{"account":1,"note":""}',
    )
    assert admin.find_keys(connection, row.key[:8]) == [row]
    assert admin.release_key(connection, "0" * 6 if row.key[:6] != "0" * 6 else "1" * 6) is None
    assert admin.release_key(connection, row.key[:8]) == row
    assert admin.list_keys(connection) == []
    assert client.enqueue(SyncArgs(1), unique=unique).new
    with pytest.raises(OptionError, match=r"expected 6 to 64 hexadecimal digits"):
        admin.find_keys(connection, "xyz")


def test_keys_that_are_given_up_are_listed_no_longer(client, connection):
    ends, starts = client.enqueue(SyncArgs(1)), client.enqueue(SyncArgs(2), unique=Unique("account", until="start"))
    client.enqueue(SyncArgs(3), unique=Unique("account", within=60))
    assert [row.job_id for row in admin.list_keys(connection)] == [ends, starts, 3]

    jobs = claim(connection, 77)
    connection.run("job_complete", [jobs[0].id], [77])
    expire(connection)

    assert admin.list_keys(connection) == []


def test_an_enqueue_that_finds_its_key_held_is_an_event_with_the_job_that_holds_it(client, connection):
    told = []
    unsubscribe = subscribe(lambda event: told.append((event.name, dict(event.fields))))
    first = client.enqueue(SyncArgs(1))
    assert told == []
    client.enqueue(SyncArgs(1))
    client.enqueue_many([SyncArgs(2), SyncArgs(2), MailArgs(1)])
    with pytest.raises(DuplicateJob):
        client.enqueue(SyncArgs(1), unique=Unique("account", then="raise"))
    unsubscribe()

    found = [(name, fields["kind"], fields["id"], fields["why"], fields["state"]) for name, fields in told]
    assert found == [
        ("job.deduplicated", "sync", first, "kept", "available"),
        ("job.deduplicated", "sync", first + 1, "kept", "available"),
        ("job.deduplicated", "sync", first, "raised", "available"),
    ]
