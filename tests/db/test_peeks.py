"""One look at all queues of a host in place of a look at each: which are called, and when there is nothing to ask."""

import time

import psycopg
import pytest

from fastq import admin
from fastq.board.board import Board
from fastq.board.cursor_words import CALLED
from fastq.work.cursor import low_water, peeks
from fastq.work.cursor.cursor import Cursor
from fastq.work.cursor.peeks import Peek, Peeks
from tests.helpers import wait_for

NAMES = ["default", "mails", "reports"]
QUESTION, NUMBERS = "job_peek", "cursor_check"


@pytest.fixture
def host(monkeypatch):
    """Give the peeks of a host whose queues were swept just now; a mark need not grow old."""
    monkeypatch.setattr(low_water, "LAG", 0.0)
    shared = Board.make([1] * len(NAMES), 1, 8)
    cursors = [Cursor(shared, queue, name, 60.0, peeked=True) for queue, name in enumerate(NAMES)]
    made = Peeks(shared, cursors, 60.0, 60.0)
    for cursor in cursors:
        cursor.words.swept_at = time.monotonic_ns()
    made.words.waiting_looked_at = time.monotonic_ns()
    return made


def peek(host, connection):
    """Peek; return the names of the statements that were sent."""
    sent, one = [], Peek(host)
    while (read := one.next_read()) is not None:
        sent.append(read.statement)
        one.learn(read, connection.run(read.statement, *read.params))
    return sent


def called(host):
    return [cursor.name for cursor in host.cursors if cursor.words.looked_at == CALLED]


def add(connection, queue, count=1, **options):
    for _ in range(count):
        connection.execute(
            f"insert into fastq.job (kind, queue, priority) values ('nap', '{queue}', {options.get('priority', 1)})"
        )


def drain(host, connection, queue):
    """Claim all that is there in a queue, as a look does."""
    found = []
    last = host.cursors[NAMES.index(queue)].send_look(connection, lambda after: 1 << 32 | 1, 1_000, found.append)
    return sum(len(claimed.ids) for claimed in [*found, last] if claimed is not None)


def reach(host, connection, number):
    """Have all queues know that nothing is left up to a number, which was given out."""
    connection.execute(f"select setval('fastq.job_seq', {number})")
    for cursor in host.cursors:
        cursor.words.low[0] = cursor.words.frontier[0] = number


def test_the_queues_that_have_something_are_called_and_no_others(host, connection):
    add(connection, "mails", priority=4)
    add(connection, "elsewhere")

    peek(host, connection)

    assert called(host) == ["mails"]
    assert [cursor.due() for cursor in host.cursors] == [False, True, False]


def test_jobs_that_lie_below_the_low_water_mark_call_for_no_look(host, connection):
    add(connection, "mails")
    reach(host, connection, 1_000)

    peek(host, connection)

    assert called(host) == []


def test_a_job_that_somebody_has_locked_counts(host, connection, database):
    add(connection, "mails")
    with psycopg.connect(database) as other:
        other.execute("select from fastq.job for update")

        asked = [peek(host, connection) for _ in range(4)]

        assert called(host) == ["mails"]
        assert all(QUESTION in sent for sent in asked)


def test_a_paused_queue_is_not_called_and_keeps_the_calm_away(host, connection):
    add(connection, "mails")
    admin.pause_queue(connection, "mails")

    asked = [peek(host, connection) for _ in range(4)]

    assert called(host) == []
    assert all(QUESTION in sent for sent in asked)
    admin.resume_queue(connection, "mails")
    peek(host, connection)
    assert called(host) == ["mails"]


def test_once_it_is_proved_that_nothing_can_come_nothing_is_asked_until_a_number_is_given_out(host, connection):
    add(connection, "mails")
    assert drain(host, connection, "mails") == 1

    for _ in range(3):
        peek(host, connection)

    assert peek(host, connection) == [NUMBERS]
    add(connection, "reports")
    assert QUESTION in peek(host, connection)
    assert called(host) == ["reports"]


def test_after_a_lost_connection_the_calm_is_not_believed(host, connection):
    for _ in range(3):
        peek(host, connection)
    assert peek(host, connection) == [NUMBERS]

    host.distrust()

    assert host.due()
    assert QUESTION in peek(host, connection)


def test_the_same_proof_moves_the_low_water_marks_of_all_queues(host, connection):
    for queue in ("mails", "reports"):
        add(connection, queue, 3)
        drain(host, connection, queue)
    words = [cursor.words for cursor in host.cursors]
    assert [one.frontier[0] for one in words] == [0, 3, 6]

    for _ in range(3):
        peek(host, connection)

    assert [one.low[0] for one in words] == [0, 3, 6]


def test_a_transaction_that_has_taken_a_number_keeps_the_calm_and_the_marks_away(host, connection, database):
    with psycopg.connect(database) as late:
        late.execute("insert into fastq.job (kind, queue) values ('nap', 'mails')")
        add(connection, "mails")
        drain(host, connection, "mails")

        asked = [peek(host, connection) for _ in range(4)]

        assert all(QUESTION in sent for sent in asked)
        assert called(host) == []
        assert host.cursors[1].words.low[0] == 0
        late.commit()
    peek(host, connection)
    assert called(host) == ["mails"]
    wait_for(lambda: host.cursors[1].due() and drain(host, connection, "mails"), what="the pass behind the frontier")


def test_queues_with_backlog_are_not_asked_for_and_keep_the_calm_away(host, connection):
    host.cursors[0].words.backlog = 1
    add(connection, "default")

    asked = [peek(host, connection) for _ in range(4)]

    assert all(QUESTION in sent for sent in asked)
    assert called(host) == []


def test_some_queues_at_a_time_are_asked_for_from_zero(host, connection, monkeypatch):
    monkeypatch.setattr(peeks, "SWEPT", 2)
    add(connection, "mails")
    reach(host, connection, 1_000)
    for cursor in host.cursors:
        cursor.words.swept_at = 1

    peek(host, connection)

    assert called(host) == ["mails"]
    assert [cursor.words.swept_at > 1 for cursor in host.cursors] == [True, False, False]
    peek(host, connection)
    assert [cursor.words.swept_at > 1 for cursor in host.cursors] == [True, False, True]


def test_a_sequence_that_went_back_calls_the_queues_that_have_seen_more(host, connection):
    add(connection, "mails")
    host.cursors[1].words.low[0] = host.cursors[1].words.frontier[0] = 1_000
    host.distrust()

    peek(host, connection)
    assert called(host) == ["mails"]
    drain(host, connection, "mails")

    assert host.cursors[1].words.frontier[0] == 0, "it has not begun at zero"
    assert drain(host, connection, "mails") == 1


def test_queues_with_jobs_that_wait_for_a_worker_are_called_for_them(host, connection):
    connection.execute(
        "insert into fastq.job (kind, queue, state, seq, waits_for) values ('nap', 'mails', 'waiting', null, 'worker:nap')"
    )
    connection.execute(
        "insert into fastq.job (kind, queue, state, seq, waits_for) values ('nap', 'reports', 'waiting', null, 'workflow')"
    )
    host.words.waiting_looked_at = 0

    peek(host, connection)

    assert [cursor.words.waiting_looked_at == CALLED for cursor in host.cursors] == [False, True, False]
    assert not host.waiting_due(time.monotonic_ns())


def test_hints_that_were_missed_are_answered_by_a_peek(host, connection):
    peek(host, connection)
    assert not host.due()
    host.words.wakes += 1
    assert host.due()

    peek(host, connection)

    assert not host.due()


def test_a_question_that_took_long_is_followed_by_a_rest(host, connection):
    host._poll_ns = 1
    peek(host, connection)
    host.words.rescan_took = 10**9

    assert not host.due()


def test_one_process_of_a_host_peeks_at_a_time(host):
    assert host.try_turn()
    host.end_turn()
