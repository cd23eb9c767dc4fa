"""Encrypted args in the database: unique keys over them, what operators are shown, a change of keys beside other changes."""

import json
from dataclasses import dataclass

import pytest

from fastq import Args, Client, Secret, Unique, admin, use_keys
from fastq.admin.sealed.rotation import rotating
from fastq.args.secret import ring
from fastq.config import Config
from fastq.errors import ConfigError, OptionError
from fastq.events import subscribe
from tests.helpers import execute

OLD, NEW, UNIQUE = (bytes([byte]) * 32 for byte in (1, 2, 3))
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

    assert heard == [("args.rotated", {"kind": "pay", "key": "new", "jobs": 1, "left": 0, "unreadable": 0})]
    assert execute(database, "select count(*) from fastq.job where args::text like '%\"old\"%'") == [(1,)]


def test_a_rotation_needs_a_key_and_the_name_of_a_kind(client):
    with pytest.raises(OptionError, match="kind"):
        client.rotate_keys("no kind")
    ring.forget()
    with pytest.raises(ConfigError, match="encrypted args need a key"):
        client.rotate_keys("pay")
