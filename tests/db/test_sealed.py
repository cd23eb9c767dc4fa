"""Encrypted args in the database: unique keys over them, what operators are shown, a change of keys beside other changes."""

import json
from dataclasses import dataclass

import pytest

from fastq import Args, Client, Secret, Unique, admin, use_keys
from fastq.admin.sealed import archived as archives
from fastq.admin.sealed.rotation import rotating
from fastq.args.secret import ring
from fastq.config import Config
from fastq.errors import ConfigError, OptionError
from fastq.events import subscribe
from fastq.postgres import db
from fastq.schema.partitions import ensure_partitions
from tests.db.jobs import CHANNEL, ERROR, claim, claim_number
from tests.helpers import execute

OLD, NEW, UNIQUE, LOST = (bytes([byte]) * 32 for byte in (1, 2, 3, 4))
MINE = claim_number(1, 1)
CARD = "4111-2222-3333"


@dataclass
class PayArgs(Args, kind="pay", encrypted=True):
    card: str


@dataclass
class BuyArgs(Args, kind="buy", unique=Unique("card", then="replace")):
    user: int
    card: Secret[str]


@dataclass
class Item:
    token: Secret[str]


@dataclass
class ListArgs(Args, kind="list", unique=Unique("user", then="collect", into="items")):
    user: int
    items: list[Item]


@pytest.fixture(autouse=True)
def keys():
    use_keys({"old": OLD}, unique=UNIQUE)
    yield
    ring.forget()


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


def test_a_unique_job_is_found_by_its_secret_also_under_another_key_of_the_ring(client, database):
    first = client.enqueue(BuyArgs(1, Secret(CARD)), delay=60)
    use_keys({"new": NEW, "old": OLD}, unique=UNIQUE)
    second, other = client.enqueue_many([BuyArgs(2, Secret(CARD)), BuyArgs(3, Secret("other"))], delay=60)

    assert (first, second.new, second.why, other.new) == (second, False, "replaced", True)
    stored = json.loads(execute(database, "select args::text from fastq.job where id = %s", int(first))[0][0])
    assert (stored["user"], stored["card"]["key"]) == (2, "new")


def test_secrets_in_a_list_are_collected_and_open(client, database):
    for token in ("a", "b"):
        client.enqueue(ListArgs(1, [Item(Secret(token)), Item(Secret(token * 2))]))

    [(stored,)] = execute(database, "select args::text from fastq.job")
    read = ListArgs.__fastq_kind__.codec.decode(stored.encode())
    assert [item.token.reveal() for item in read.items] == ["a", "aa", "b", "bb"]


def test_what_an_operator_is_shown_has_dots_in_place_of_what_is_encrypted(client, database):
    pay, buy = client.enqueue(PayArgs(CARD), unique=Unique()), client.enqueue(BuyArgs(1, Secret(CARD)))

    assert client.get(pay).args == "•••"
    assert client.get(buy).args_json == '{"user":1,"card":"•••"}'
    assert [row.args_json for row in client.unique_keys()] == ['"•••"', '{"user":1,"card":"•••"}']
    operator = admin.connect(Config(), database)
    try:
        assert "$fq" not in repr(admin.show_job(operator, pay))
    finally:
        operator.close()


def step(asking, rows=None):
    """Go on to the next statement of a change; return it, and the result where there is none."""
    try:
        return (next(asking) if rows is None else asking.send(rows)), None
    except StopIteration as end:
        return None, end.value


def test_a_job_that_was_changed_or_began_to_run_while_its_key_is_changed_keeps_what_it_has(client, database, connection):
    ids = client.enqueue_many([PayArgs(CARD)] * 3)
    use_keys({"new": NEW, "old": OLD})
    asking = rotating("pay")
    ask, _ = step(asking)
    ask, _ = step(asking, connection.run(ask.statement, *ask.parameters))
    execute(database, 'update fastq.job set args = \'{"card": "changed"}\' where id = %s', int(ids[0]))
    execute(database, "update fastq.job set state = 'running', claim = 1 where id = %s", int(ids[1]))

    _, told = step(asking, connection.run(ask.statement, *ask.parameters))

    assert (told.jobs, told.left) == (1, 2)
    stored = [json.loads(text) for (text,) in execute(database, "select args::text from fastq.job order by id")]
    assert [one.get("key") for one in stored] == [None, "old", "new"]


def test_a_rotation_is_reported_and_jobs_of_other_kinds_are_let_be(client, database):
    client.enqueue_many([PayArgs(CARD), BuyArgs(1, Secret(CARD))])
    use_keys({"new": NEW, "old": OLD})
    heard = []
    unsubscribe = subscribe(lambda event: heard.append((event.name, event.fields)))
    try:
        client.rotate_keys("pay")
    finally:
        unsubscribe()

    numbers = {"jobs": 1, "left": 0, "unreadable": 0, "archived": None, "dead": None}
    assert heard == [("args.rotated", {"kind": "pay", "key": "new", **numbers})]
    assert execute(database, "select count(*) from fastq.job where args::text like '%\"old\"%'") == [(1,)]


def test_a_rotation_needs_a_key_and_the_name_of_a_kind(client):
    with pytest.raises(OptionError, match="kind"):
        client.rotate_keys("no kind")
    ring.forget()
    with pytest.raises(ConfigError, match="encrypted args need a key"):
        client.rotate_keys("pay")


PLACES = "select tableoid, ctid::text, xmin::text from fastq.{} order by 1, 2"


def end(connection, ids, state="completed"):
    """Have jobs end."""
    ids = [int(id_) for id_ in ids]
    claim(connection, MINE, limit=1_000)
    connection.run("job_finish", ids, [MINE] * len(ids), [state] * len(ids), [ERROR] * len(ids), [None] * len(ids), CHANNEL)


def keys_of(database, table):
    """Return the names of the keys that have encrypted a table's args, in the order of the ids."""
    return [json.loads(text).get("key") for (text,) in execute(database, f"select args::text from fastq.{table} order by id")]


def test_finished_jobs_are_encrypted_anew_and_open_with_the_new_key_alone(client, database, connection):
    ids = client.enqueue_many([PayArgs(CARD)] * 3)
    end(connection, ids[:2], "discarded")
    end(connection, ids[2:])
    use_keys({"new": NEW, "old": OLD})

    told = client.rotate_keys("pay", archive=True)

    assert (told.jobs, told.archived, told.dead, told.left, told.remaining) == (0, 3, 2, 0, {})
    assert {*keys_of(database, "job_archive"), *keys_of(database, "dead")} == {"new"}
    use_keys({"new": NEW})
    assert client.retry(ids[0])
    assert client.replay(kind="pay").jobs == 1
    stored = [text.encode() for (text,) in execute(database, "select args::text from fastq.job order by id")]
    assert [PayArgs.__fastq_kind__.codec.decode(text).card for text in stored] == [CARD] * 2


def test_without_the_archive_finished_jobs_keep_their_key(client, database, connection):
    end(connection, client.enqueue_many([PayArgs(CARD)]), "discarded")
    use_keys({"new": NEW, "old": OLD})

    told = client.rotate_keys("pay")

    assert (told.archived, told.dead) == (None, None)
    assert keys_of(database, "job_archive") == keys_of(database, "dead") == ["old"]


def test_a_row_under_the_newest_key_is_not_written_again_nor_its_partition(client, database, connection):
    end(connection, client.enqueue_many([PayArgs(CARD)]))  # in the default partition
    ensure_partitions(connection)
    use_keys({"new": NEW, "old": OLD}, unique=UNIQUE)
    end(connection, client.enqueue_many([PayArgs(CARD), BuyArgs(1, Secret(CARD))]), "discarded")
    execute(database, "update fastq.job_archive set finalized_at = '2020-01-01Z' where id = 1")
    tables = ("job_archive", "dead")
    before = [execute(database, PLACES.format(table)) for table in tables]

    told = client.rotate_keys("pay", archive=True)

    assert (told.archived, told.dead) == (1, 0)
    after = [execute(database, PLACES.format(table)) for table in tables]
    assert len({*before[0]} & {*after[0]}) == 2
    assert before[1] == after[1]
    again = client.rotate_keys("pay", archive=True)
    assert (again.archived, again.dead, again.remaining) == (0, 0, {})
    assert [execute(database, PLACES.format(table)) for table in tables] == after


def test_all_rows_of_all_partitions_are_found_by_windows_and_those_that_do_not_open_are_counted_by_key(
    client, database, connection, monkeypatch
):
    use_keys({"lost": LOST})
    end(connection, client.enqueue_many([PayArgs(CARD)] * 7), "discarded")
    use_keys({"old": OLD})
    end(connection, client.enqueue_many([PayArgs("x" * 300)] * 400), "discarded")
    days = "'2020-01-01Z'::timestamptz + (id % 3) * interval '1 day'"
    execute(database, f"update fastq.job_archive set finalized_at = {days}")
    execute(
        database,
        "create table fastq.job_archive_20200102 (like fastq.job_archive including defaults);"
        " with gone as (delete from fastq.job_archive where id % 3 = 1 returning *)"
        " insert into fastq.job_archive_20200102 select * from gone;"
        " alter table fastq.job_archive attach partition fastq.job_archive_20200102"
        " for values from ('2020-01-02Z') to ('2020-01-03Z')",
    )
    use_keys({"new": NEW, "old": OLD})
    monkeypatch.setattr(archives, "WINDOW", 3)
    monkeypatch.setattr(archives, "PAGES", 2)

    told = client.rotate_keys("pay", archive=True)

    assert (told.archived, told.dead, told.left) == (400, 400, 0)
    assert (told.unreadable, told.sample, told.remaining) == (14, 1, {"lost": 14})
    assert keys_of(database, "job_archive") == keys_of(database, "dead") == ["lost"] * 7 + ["new"] * 400


def test_a_change_of_keys_that_was_broken_off_is_finished_by_the_next_one(client, database, connection, monkeypatch):
    end(connection, client.enqueue_many([PayArgs(CARD)] * 10), "discarded")
    use_keys({"new": NEW, "old": OLD})
    monkeypatch.setattr(archives, "WINDOW", 3)
    asking = rotating("pay", archive=True)
    ask, _ = step(asking)
    while ask.statement != "archive_reseal":
        ask, _ = step(asking, connection.run(ask.statement, *ask.parameters))
    connection.run(ask.statement, *ask.parameters)
    asking.close()
    assert keys_of(database, "job_archive").count("new") == 3

    told = client.rotate_keys("pay", archive=True)

    assert (told.archived, told.dead) == (7, 10)


def test_a_finished_job_that_is_changed_or_locked_meanwhile_is_counted(client, database, connection, other):
    ids = client.enqueue_many([PayArgs(CARD)] * 3)
    end(connection, ids)
    use_keys({"new": NEW, "old": OLD})
    asking = rotating("pay", archive=True)
    ask, _ = step(asking)
    while ask.statement != "archive_reseal":
        ask, _ = step(asking, connection.run(ask.statement, *ask.parameters))
    execute(database, "delete from fastq.job_archive where id = %s", int(ids[0]))
    other.execute("begin")
    other.execute("select from fastq.job_archive where id = $1 for update", int(ids[1]))
    told = None
    while ask is not None:
        ask, told = step(asking, connection.run(ask.statement, *ask.parameters))
    other.execute("rollback")

    assert (told.archived, told.left, told.remaining) == (1, 2, {"old": 2})
    assert keys_of(database, "job_archive") == ["old", "new"]


def test_a_running_job_is_counted_by_its_key_and_one_under_the_newest_is_not(client, database, connection):
    client.enqueue_many([PayArgs(CARD)] * 2)
    use_keys({"new": NEW, "old": OLD})
    client.enqueue_many([PayArgs(CARD)] * 3)
    execute(database, "update fastq.job set state = 'running', claim = 1 where id <> 1")

    told = client.rotate_keys("pay")

    assert (told.jobs, told.left, told.remaining) == (1, 1, {"old": 1})


def scans(plan):
    """Return how each table is read by a plan."""
    below = [scan for child in plan.get("Plans", ()) for scan in scans(child)]
    return [*([(plan["Node Type"], plan["Relation Name"])] if "Relation Name" in plan else []), *below]


def test_a_window_of_the_archive_is_a_range_of_pages_of_one_partition(client, database, connection):
    end(connection, client.enqueue_many([PayArgs(CARD)] * 50))
    ensure_partitions(connection)
    end(connection, client.enqueue_many([PayArgs(CARD)] * 50))
    execute(database, "update fastq.job_archive set finalized_at = '2020-01-01Z' where id <= 50")
    parts = connection.run("archive_parts")
    assert len(parts) == 2
    operator = admin.connect(Config(), database)

    for partition, low, high, pages in parts:
        [(name,)] = connection.execute("select $1::oid::regclass::text", partition)
        window = ("pay", "new", partition, low, high, "(0,0)", f"({pages},0)", 500)
        text = f"explain (format json) {db.statement('archive_sealed')}"
        [[plan]] = operator.execute(text, *window)[0]
        found = scans(plan["Plan"])
        if name.endswith("default"):
            assert {node for node, _ in found} == {"Tid Range Scan"}
        else:
            assert found == [("Tid Range Scan", name.removeprefix("fastq."))]
    operator.close()
