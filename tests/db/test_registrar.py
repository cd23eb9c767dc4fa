"""The registrar: a host goes on beating, and recovers other dead children, while the jobs of one cannot be given back."""

from array import array
from datetime import timedelta
from itertools import pairwise

import pytest

from fastq.board.board import TICKED, Board
from fastq.host.registrar import Registrar
from fastq.postgres import db
from tests.db.jobs import add, claim_number, living
from tests.db.leases import configured
from tests.helpers import wait_for
from tests.proxy import Proxy


@pytest.fixture
def board():
    return Board.make([10], 2, 16)


@pytest.fixture
def registrar(database, board):
    """Give one at work."""
    config = configured(process_ttl=3.0, beat_interval=1.0)
    made = Registrar(config, database, board, lambda _: None)
    start(made)
    yield made
    stop(made)


def start(registrar):
    """Start it with the recovery beside it, as the supervisor does."""
    registrar.start()
    registrar.recovery.start()


def stop(registrar, seconds=10.0, what="its end"):
    registrar.recovery.finish(0.0)
    registrar.finish(0.0)
    wait_for(lambda: registrar.ended and registrar.recovery.ended, seconds, what)


def numbers(registrar, count):
    return [wait_for(registrar.take_number, what="a number") for _ in range(count)]


def hold(connection, board, desk, number):
    """Let a process hold a job; return the job's id."""
    (job_id,) = add(connection, state="running", attempt=1, claim=claim_number(number, 1))
    board.lane(desk, 0, 0).claimed(array("q", [job_id]))
    return job_id


def executes(board):
    """Write to the first desk what a process writes there that executes a job."""
    board.desk(0)[TICKED] = 1
    board.lane(0, 0, 0).slots[3] = 7


def beats(connection, number, count):
    """Wait for so many beats of a process; return until when each let it live."""
    seen = []

    def enough():
        rows = connection.execute("select expires_at from fastq.process where id = $1 and pid = 13", number)
        seen.extend(at for (at,) in rows if at not in seen)
        return len(seen) >= count

    wait_for(enough, what=f"{count} beats")
    return seen


def test_a_lock_on_the_jobs_stops_no_beat(registrar, board, connection, other, events):
    (number,) = numbers(registrar, 1)
    registrar.add(number, 13)
    executes(board)
    beats(connection, number, 1)
    other.execute("begin")
    other.execute("lock table fastq.job in access exclusive mode")

    lived = beats(connection, number, 3)

    other.execute("rollback")
    assert max(after - before for before, after in pairwise(lived)) < timedelta(seconds=2)  # of three
    assert {event.name for event in events} == {"registrar.waits"}


def test_cancellations_are_asked_for_where_a_job_executes_or_a_hint_came(registrar, connection, other, events):
    (number,) = numbers(registrar, 1)
    registrar.add(number, 13)
    other.execute("begin")
    other.execute("lock table fastq.job in access exclusive mode")  # who asks waits, in vain

    beats(connection, number, 3)
    assert events == [], "who idles does not ask"
    registrar.beat_now()
    wait_for(lambda: "registrar.waits" in {event.name for event in events}, what="the question")

    other.execute("rollback")


def test_a_locked_job_does_not_keep_the_others_of_a_dead_process(registrar, board, connection, other):
    number, alive = numbers(registrar, 2)
    registrar.add(alive, 13)
    locked, free = hold(connection, board, 0, number), hold(connection, board, 0, number)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", locked)

    registrar.recover(number, 0, 7, "test")

    wait_for(lambda: living(connection, free)["state"] == "available", 20.0, "the job that nobody has locked")
    wait_for(lambda: not registrar.owes, 20.0, "the end of the recovery")
    assert living(connection, locked)["claim"] == claim_number(number, 1)  # of a process that is gone: rescue finds it
    wait_for(lambda: connection.execute("select id from fastq.process where id = $1", number) == [], 20.0, "the end of the row")
    assert len(beats(connection, alive, 2)) == 2
    other.execute("rollback")


def test_a_number_that_somebody_else_has_is_given_up_and_no_other_of_that_time_is_used(registrar, connection, other):
    (first,) = numbers(registrar, 1)
    registrar.add(first, 13)
    beats(connection, first, 1)
    connection.execute("update fastq.process set supervisor = 'h:2:x'")  # as after a restore: of this one, and of the next number
    connection.execute("select setval('fastq.process_number', $1, false)", first)

    wait_for(lambda: registrar.lost == {first}, what="the loss to be seen")
    (second,) = numbers(registrar, 1)

    assert second > first + 63
    assert connection.execute("select supervisor from fastq.process where id = $1", first) == [("h:2:x",)]


def test_a_recovery_that_is_refused_keeps_neither_the_beat_nor_other_recoveries(registrar, board, connection):
    spoilt, dead, alive = numbers(registrar, 3)
    refused, lost = hold(connection, board, 0, spoilt), hold(connection, board, 1, dead)
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as $$ "
        f"begin if old.id = {refused} then raise exception 'not this one'; end if; return new; end $$"
    )
    connection.execute("create trigger refuse before update on fastq.job for each row execute function public.refuse()")

    registrar.recover(spoilt, 0, 11, "signal 9")
    registrar.recover(dead, 1, 12, "signal 9")
    registrar.add(alive, 13)

    known = "select expires_at from fastq.process where id = $1 and pid = 13"
    [(first,)] = wait_for(lambda: connection.execute(known, alive), what="a beat for the living")
    wait_for(lambda: connection.execute(known, alive)[0][0] > first, what="another beat")
    wait_for(lambda: living(connection, lost)["state"] == "available", what="the other recovery")
    assert living(connection, refused)["state"] == "running"

    connection.execute("drop trigger refuse on fastq.job")
    wait_for(lambda: living(connection, refused)["state"] == "available", what="the recovery that was refused")


def test_what_the_database_refuses_again_and_again_is_told_once(proxy, board, connection, events):
    connection.execute("alter sequence fastq.process_number rename to elsewhere")
    # The time to live is long: a connection that a busy machine is slow to give would be another thing to tell.
    registrar = Registrar(configured(process_ttl=60.0, beat_interval=1.0), proxy.url, board, lambda _: None)

    start(registrar)
    wait_for(lambda: proxy.accepted > 2, what="the third try")

    stop(registrar, 2.0, "its end: it has nothing to undo")
    assert [event.name for event in events] == ["registrar.waits"]


def until_it_lives_on(connection, number):
    """Wait until a beat has put off the end of a process; return how much of its time to live was left."""
    text = "select expires_at, expires_at - clock_timestamp() from fastq.process where id = $1"
    [(before, _)], left = connection.execute(text, number), []

    def put_off():
        [(now, remaining)] = connection.execute(text, number)
        left.append(remaining)
        return now > before

    wait_for(put_off, what="another beat")
    return min(left)


@pytest.mark.parametrize(("statement", "times"), [("process_beat", 2), ("job_to_cancel", 1), ("job_recover", 1)])
def test_connections_that_fall_silent_make_no_host_look_dead(database, board, connection, statement, times):
    config = configured(process_ttl=4.5, beat_interval=0.9)
    executes(board)  # so it asks for the jobs that are to be cancelled
    with Proxy(database, {statement: db.statement(statement)}) as wire:
        registrar = Registrar(config, wire.url, board, lambda _: None)
        start(registrar)
        alive, dead = numbers(registrar, 2)
        registrar.add(alive, 13)
        beats(connection, alive, 1)

        wire.lose(statement, times)
        if statement == "job_recover":
            registrar.recover(dead, 1, 7, "test")
        left = until_it_lives_on(connection, alive)
        wait_for(lambda: wire.lost == times, what="the faults")
        left = min(left, *(until_it_lives_on(connection, alive) for _ in range(2)))

        assert left > timedelta(0)
        wire.restore()
        for silent in [*registrar.watched(), *registrar.recovery.watched()]:
            silent.cut()  # as the supervisor does with what is overdue
        stop(registrar)


def test_a_session_that_comes_late_serves_the_next_try(database, board, connection):
    with Proxy(database) as wire:
        wire.late = 0.3  # of each answer: a session takes two, and a try may take 0.5 s
        registrar = Registrar(configured(process_ttl=2.2, beat_interval=0.7), wire.url, board, lambda _: None)
        start(registrar)
        wait_for(registrar.take_number, what="a number")
        stop(registrar)
