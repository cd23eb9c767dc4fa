"""The beat: rows of processes come, stay alive and come back; requests to cancel are asked for after it."""

from itertools import pairwise

from tests.db.jobs import add, claim, claim_number, count


def beat(connection, ids, pids=None, *, ttl=15.0, host="h", supervisor="h:1:abc", queues="default", kinds=()):
    pids = pids or [100 + number for number in ids]
    rows = connection.run("process_beat", ids, pids, host, supervisor, queues, ttl, "default", [], list(kinds), [None] * len(ids))
    return {number for (number,) in rows}


def processes(connection):
    rows = connection.execute("select id, pid, host, supervisor, queues from fastq.process order by id")
    return {number: tuple(rest) for number, *rest in rows}


def seconds_left(connection, number):
    return connection.execute(
        "select extract(epoch from expires_at - clock_timestamp())::float8 from fastq.process where id = $1", number
    )[0][0]


def test_the_first_beat_makes_the_rows(connection):
    beat(connection, [7, 8], ttl=15.0)

    assert processes(connection) == {7: (107, "h", "h:1:abc", "default"), 8: (108, "h", "h:1:abc", "default")}
    assert 14.0 < seconds_left(connection, 7) <= 15.0


def test_later_beats_keep_them_alive_and_leave_others_alone(connection):
    beat(connection, [7], ttl=1.0)
    beat(connection, [9], ttl=1.0, supervisor="h:2:def")
    started = connection.execute("select started_at from fastq.process where id = 7")

    beat(connection, [7], ttl=30.0)

    assert seconds_left(connection, 7) > 29.0
    assert seconds_left(connection, 9) <= 1.0
    assert connection.execute("select started_at from fastq.process where id = 7") == started


def test_a_row_that_was_removed_comes_back(connection):
    beat(connection, [7, 8])
    connection.run("process_end", [7], "h:1:abc")
    assert set(processes(connection)) == {8}

    beat(connection, [7, 8])

    assert set(processes(connection)) == {7, 8}


def test_a_number_that_another_supervisor_has_stays_his_and_is_told(connection):
    beat(connection, [7], ttl=1.0)

    assert beat(connection, [7, 8], ttl=30.0, supervisor="h:2:def") == {8}

    assert processes(connection)[7] == (107, "h", "h:1:abc", "default")
    assert seconds_left(connection, 7) <= 1.0
    connection.run("process_end", [7, 8], "h:2:def")
    assert set(processes(connection)) == {7}
    assert beat(connection, [7]) == {7}


def test_the_jobs_to_cancel_are_those_that_these_processes_have(connection):
    mine, theirs, waiting, unasked = add(connection, 4)
    claim(connection, claim_number(7, 1))
    connection.execute("update fastq.job set claim = $1 where id = $2", claim_number(9, 1), theirs)
    connection.execute("update fastq.job set state = 'available', claim = null where id = $1", waiting)
    connection.execute("update fastq.job set cancel_requested = true where id <> $1", unasked)

    assert connection.run("job_to_cancel", [7, 8]) == [(mine, 7)]


def test_beating_for_no_process_does_nothing(connection):
    beat(connection, [])

    assert count(connection, "process") == 0


def test_supervisors_get_disjoint_numbers_for_their_processes(connection, other):
    taken = [session.run_one("process_take_numbers")[0] for session in (connection, other, connection)]

    assert [b - a for a, b in pairwise(taken)] == [64, 64]


def test_numbers_that_are_in_use_are_told(connection):
    first, _ = connection.run_one("process_take_numbers")
    beat(connection, [first + 64, first + 64 * 3 - 1])

    assert [connection.run_one("process_take_numbers")[1] for _ in range(3)] == [True, True, False]


def test_kinds_are_written_when_the_row_is_made_and_not_at_each_beat(connection):
    many = [f"kind number {number} of many" for number in range(2_000)]
    beat(connection, [7], kinds=many)
    connection.execute("select pg_stat_force_next_flush()")
    toasted = (
        "select n_tup_ins from pg_stat_all_tables where relid = (select reltoastrelid from pg_class where relname = 'process')"
    )
    (before,) = connection.execute(toasted)

    for _ in range(5):
        beat(connection, [7], kinds=[*many, "later"])
    connection.execute("select pg_stat_force_next_flush()")

    assert connection.execute("select kinds from fastq.process") == [(many,)]
    assert before > (0,)
    assert connection.execute(toasted) == [before]
