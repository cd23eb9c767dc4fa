"""Acquiring a lease: one of all that race for it gets it, and nobody waits for a lock."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from fastq import Lease
from fastq.errors import DatabaseUnavailable, LeaseError
from fastq.leases.lease import Fence
from tests.db.jobs import session
from tests.db.lease_rows import NAME, expire, release, renew, row, take
from tests.helpers import Stopwatch, execute

RACERS, ROUNDS = 8, 200
KINDS = ("free", "stale", "missing", "fresh")
ROOT = Path(__file__).parent.parent.parent
SQL = ROOT / "fastq" / "sql"
INSERT = "insert into fastq.lease (name, holder, term, expires_at) select name, %s, 1, {} from unnest(%s::text[]) as given (name)"


# Races


@contextmanager
def racing(url, *how):
    """Start racers; give a function that sends them all a name at once and returns the terms that were won."""
    command = [sys.executable, str(ROOT / "tests" / "db" / "racer.py"), url, *how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    racers = [subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, **pipes) for _ in range(RACERS)]

    def race(name):
        for racer in racers:
            racer.stdin.write(f"{name}\n")
        answers = [racer.stdout.readline().strip() for racer in racers]
        return [int(answer) for answer in answers if answer != "-"]

    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * RACERS
        yield race
    finally:
        for racer in racers:
            racer.stdin.close()
            racer.wait(10)
            racer.stdout.close()


def prepare(url, kind, rounds):
    """Make leases of a kind; return their names."""
    names = [f"{kind} {number}" for number in range(rounds)]
    expiry = {
        "free": "'-infinity'",
        "stale": "clock_timestamp() - interval '1 ms'",
        "fresh": "clock_timestamp() + interval '1 h'",
    }
    if kind != "missing":
        execute(url, INSERT.format(expiry[kind]), "" if kind == "free" else "somebody", names)
    return names


@pytest.mark.lease("L01", "L02", "L05")
def test_of_racing_processes_one_wins_a_free_a_stale_and_a_missing_lease_and_none_a_fresh_one(database):
    with racing(database) as race:
        won = {
            kind: [len(race(name)) for name in prepare(database, kind, ROUNDS)] for kind in ("free", "stale", "missing", "fresh")
        }

    assert won == {"free": [1] * ROUNDS, "stale": [1] * ROUNDS, "missing": [1] * ROUNDS, "fresh": [0] * ROUNDS}
    assert execute(database, "select count(*) from fastq.lease where holder <> ''") == [(4 * ROUNDS,)]


@pytest.mark.lease("L02", "L32")
def test_of_racing_processes_the_next_winner_of_the_same_lease_has_a_higher_term(database):
    terms = []
    with racing(database) as race:
        for _ in range(50):
            (term,) = race(NAME)
            terms.append(term)
            execute(database, "update fastq.lease set expires_at = clock_timestamp() - interval '1 ms'")

    assert terms == sorted(set(terms))


@pytest.mark.lease("L01", "L07")
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_of_racing_processes_one_wins_where_neither_isolation_nor_plans_can_be_pinned(database, isolation):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f"alter database \"{name}\" set default_transaction_isolation = '{isolation}'")
    with racing(database, "unpinned") as race:
        won = [len(race(name)) for kind in ("free", "stale", "missing") for name in prepare(database, kind, 20)]

    # The losers of a race are told so by an error there, and now and then so is the one that would have won.
    assert set(won) <= {0, 1}
    assert won.count(1) >= 50


# Acquiring


@pytest.mark.lease("L03")
@pytest.mark.parametrize("lock", ["update", "no key update", "share", "key share"])
def test_a_candidate_does_not_wait_for_a_lease_that_somebody_has_locked(connection, other, lock):
    old = take(other)
    expire(connection)
    other.execute("begin")
    other.execute(f"select from fastq.lease for {lock}")

    watch = Stopwatch()
    assert take(connection, "b") is None
    assert watch.idle() < 0.5, "it did not wait"
    other.execute("rollback")
    assert take(connection, "b").term > old.term


@pytest.mark.lease("L03")
def test_a_candidate_that_sees_a_stale_row_which_is_being_renewed_loses(connection, other, database):
    take(other)
    expire(connection)
    other.execute("begin")
    other.execute(
        "update fastq.lease set expires_at = clock_timestamp() + interval '1 h'"
    )  # the candidate's snapshot has the old one

    assert take(connection, "b") is None
    other.execute("commit")
    assert take(connection, "b") is None
    assert row(connection)[0] == "a"


@pytest.mark.lease("L04")
def test_acquiring_is_not_renewing(connection, make):
    assert take(connection)
    assert take(connection) is None, "not even for the holder"

    mine = make()
    assert mine.try_acquire()
    assert not mine.try_acquire()
    assert mine.trusted(), "asking has not cost it"


@pytest.mark.lease("L05", "L32")
@pytest.mark.parametrize("how", ["delete from fastq.lease", "truncate fastq.lease"])
def test_a_row_that_vanished_makes_the_holder_lose_and_is_made_again_with_a_higher_term(connection, how):
    old = take(connection)
    connection.execute(how)

    assert not renew(connection, old)
    assert take(connection, "b").term > old.term


@pytest.mark.lease("L06")
@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"name": "a"}, "lease_pkey"),
        ({"name": ""}, "name_is_short"),
        ({"name": " \n"}, "name_is_short"),
        ({"name": "x" * 201}, "name_is_short"),
        ({"name": "b", "holder": " "}, "holder_is_short"),
        ({"name": "b", "holder": "\t\n"}, "holder_is_short"),
        ({"name": "b", "holder": "h" * 128}, "holder_is_short"),
    ],
)
def test_the_table_refuses_a_second_row_blank_names_and_holders_and_long_ones(connection, columns, constraint):
    connection.execute("insert into fastq.lease (name, holder) values ('a', 'a')")
    with pytest.raises(psycopg.IntegrityError) as caught:
        connection.execute("insert into fastq.lease (name, holder) values ($1, $2)", columns["name"], columns.get("holder", "a"))

    assert caught.value.diag.constraint_name == constraint


@pytest.mark.lease("L06")
@pytest.mark.parametrize("name", ["", " ", "\n", "a\0b", "a\nb", "\ud800", "x" * 181, "ä" * 91, None, 7])
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_sent(name):
    with pytest.raises(LeaseError, match="lease name: expected 1 to 180 bytes"):
        Lease(name, url="postgresql://nowhere")


@pytest.mark.lease("L07")
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("pinned", [True, False])
def test_a_stricter_isolation_by_default_changes_nothing(database, isolation, pinned):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f"alter database \"{name}\" set default_transaction_isolation = '{isolation}'")
    connection, other = session(database, pinned=pinned, prepare=pinned), session(database, pinned=pinned, prepare=pinned)

    level = connection.execute("select current_setting('transaction_isolation')")
    assert level == [("read committed" if pinned else isolation,)]
    mine = take(connection)
    assert take(other, "b") is None
    assert renew(connection, mine)
    expire(other)
    assert not renew(connection, mine)
    yours = take(other, "b")
    assert yours.term > mine.term
    assert not release(connection, mine)
    assert release(other, yours)
    connection.close()
    other.close()


@pytest.mark.lease("L07", "L31")
@pytest.mark.parametrize("pinned", [True, False])
def test_a_database_that_only_reads_refuses_loudly(database, pinned):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f'alter database "{name}" set default_transaction_read_only = on')
    connection = session(database, pinned=pinned, prepare=pinned)

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        take(connection)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        renew(connection, Fence(NAME, "a", 1))
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        release(connection, Fence(NAME, "a", 1))
    connection.close()
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        Lease("report", url=database).try_acquire()


@pytest.mark.lease("L08")
@pytest.mark.parametrize("path", sorted(SQL.glob("lease_*.sql")), ids=lambda path: path.stem)
def test_no_statement_about_a_lease_takes_the_time_at_which_a_transaction_began(path):
    frozen = r"\b(now\s*\(|current_timestamp|transaction_timestamp|statement_timestamp|localtimestamp|current_time\b)"
    body = "\n".join(line for line in path.read_text().splitlines() if not line.strip().startswith("--"))

    assert not re.findall(frozen, body, re.IGNORECASE)


@pytest.mark.lease("L08")
def test_a_connection_that_is_handed_in_with_a_transaction_under_way_is_refused(database, make):
    with psycopg.connect(database, autocommit=True) as conn:
        mine = make(conn=conn)
        with conn.transaction(), pytest.raises(LeaseError, match="expected no transaction in progress"):
            mine.try_acquire()
        assert mine.try_acquire()
        with conn.transaction(), pytest.raises(LeaseError, match="expected no transaction in progress"):
            mine.renew()
        assert mine.renew()
    with psycopg.connect(database) as conn, pytest.raises(LeaseError, match="expected a connection in autocommit"):
        make(conn=conn)
    with pytest.raises(LeaseError, match=r"expected a psycopg\.Connection, got str"):
        make(conn=database)
