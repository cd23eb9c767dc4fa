"""The lease: one holder at a time, whoever races for it, and a term that grows with each change of hands."""

import threading
from itertools import pairwise

from tests.db.jobs import session

RACERS, ROUNDS = 8, 50
DOMAIN = "default"


def take(connection, holder, ttl=10.0):
    """Take or renew; return the term, or None when somebody else holds the lease."""
    rows = connection.run("lease_take", DOMAIN, holder, ttl)
    return rows[0][0] if rows else None


def release(connection, holder, term):
    connection.run("lease_release", DOMAIN, holder, term)


def expire(connection):
    connection.execute("update fastq.leader set expires_at = clock_timestamp() - interval '1 ms'")


def holder_of(connection):
    return connection.execute("select holder from fastq.leader where domain = $1", DOMAIN)[0][0]


def test_a_free_lease_is_taken_and_a_fresh_one_is_not(connection):
    term = take(connection, "a")

    assert term is not None
    assert take(connection, "b") is None
    assert take(connection, "a") == term, "renewing keeps the term"


def test_a_stale_lease_is_taken_with_a_higher_term(connection):
    first = take(connection, "a")
    expire(connection)

    second = take(connection, "b")

    assert second > first
    assert take(connection, "a") is None


def test_a_holder_that_let_its_lease_run_out_begins_a_new_term(connection):
    first = take(connection, "a")
    expire(connection)

    assert take(connection, "a") > first


def test_releasing_frees_the_lease_at_once_and_the_term_grows_on(connection):
    first = take(connection, "a")
    release(connection, "a", first)

    assert holder_of(connection) == ""
    assert take(connection, "b") > first


def test_only_the_holder_in_its_term_can_release(connection):
    old = take(connection, "a")
    expire(connection)
    new = take(connection, "a")

    release(connection, "a", old)
    release(connection, "b", new)

    assert holder_of(connection) == "a"


def test_the_term_grows_even_after_an_older_copy_of_the_row_came_back(connection):
    before = take(connection, "a")
    connection.execute("update fastq.leader set holder = '', term = 0, expires_at = '-infinity'")  # a lossy failover

    assert take(connection, "b") > before


def test_renewing_extends_the_lease_by_the_ttl_from_now(connection):
    take(connection, "a", ttl=1.0)
    take(connection, "a", ttl=20.0)

    left = "select extract(epoch from expires_at - clock_timestamp())::float8 from fastq.leader"
    assert 19.0 < connection.execute(left)[0][0] <= 20.0


def test_of_racers_for_a_stale_lease_exactly_one_wins_each_round(connection, database):
    sessions = [session(database) for _ in range(RACERS)]
    barrier = threading.Barrier(RACERS + 1)
    won = [[] for _ in range(RACERS)]  # terms by racer and round

    def race(number):
        for _ in range(ROUNDS):
            barrier.wait(10)
            won[number].append(take(sessions[number], f"racer {number}"))
            barrier.wait(10)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        expire(connection)
        barrier.wait(10)
        barrier.wait(10)
    for thread in threads:
        thread.join()
    for opened in sessions:
        opened.close()

    terms = [[term for term in a_round if term] for a_round in zip(*won, strict=True)]
    assert [len(winners) for winners in terms] == [1] * ROUNDS
    assert all(later > earlier for (earlier,), (later,) in pairwise(terms))
