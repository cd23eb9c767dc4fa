"""Which of several queues a producer looks at next. The board is real, the queues are as many as it takes."""

import time
from types import SimpleNamespace

import pytest

from fastq.board.board import Board
from fastq.config import Config
from fastq.work.claim import rota
from fastq.work.claim.rota import ALL, FULL, ROOM, encode, rota_of
from fastq.work.cursor.cursor import Cursor
from fastq.work.shared.lane import OWN

QUEUES = 5
BATCH = 1_000
FAR = 3600.0


@pytest.fixture
def queues():
    """Give what a producer keeps for each queue, as far as its rota looks at it."""
    shared = Board.make([1] * QUEUES, 1, 8)
    made = [
        SimpleNamespace(
            feed=SimpleNamespace(number=queue, claimed=0),
            cursor=Cursor(shared, queue, f"queue {queue}", FAR, peeked=True),
            waits=lambda: False,
            waiting=SimpleNamespace(interval=FAR),
        )
        for queue in range(QUEUES)
    ]
    made[0].board = shared
    return made


@pytest.fixture
def order(queues):
    """Give the rota of these queues, all of which rest."""
    return rota_of(queues, queues[0].board, Config(batch=BATCH, poll_interval=10.0), 1)


def all_that_come(order):
    found = []
    while (source := order.next()) is not None:
        found.append(source.feed.number)
    return found


def test_one_queue_needs_no_rota(queues):
    assert rota_of(queues[:1], queues[0].board, Config(), 1) is None


def test_no_queue_comes_up_that_nobody_calls_and_that_is_not_due(order):
    assert order.next() is None


def test_queues_come_up_in_the_order_of_their_calls_once_each(order):
    order.hear(encode(3) + encode(1) + encode(3))

    assert all_that_come(order) == [3, 1]


def test_a_call_of_all_and_a_full_pipe_call_each_queue(order):
    order.hear(encode(ALL))
    assert sorted(all_that_come(order)) == [*range(QUEUES)]
    order.hear(encode(2) * (FULL // 4))
    assert sorted(all_that_come(order)) == [*range(QUEUES)]


def test_processes_begin_at_different_queues(queues):
    orders = [rota_of(queues, queues[0].board, Config(), process) for process in (1, 2)]
    for one in orders:
        one.call_all()

    first, second = (all_that_come(one) for one in orders)

    assert first[0] != second[0]
    assert sorted(first) == sorted(second)


def test_a_queue_that_is_put_off_comes_up_when_its_time_has_come(order, queues):
    order.put(queues[4], 0.02)
    assert order.next() is None
    assert 0 < rest_of(order, queues) <= 0.02
    time.sleep(0.02)

    assert all_that_come(order) == [4]


def test_of_the_times_of_a_queue_the_last_one_counts(order, queues):
    order.put(queues[4], 0.01)
    order.put(queues[4], FAR)
    time.sleep(0.01)

    assert order.next() is None


def rest_of(order, queues):
    order._scan_at = time.monotonic() + FAR
    return order.rest()


def own(queue):
    return encode(OWN + queue)


def test_a_queue_whose_executors_call_goes_on_before_others_until_it_has_had_a_batch(order, queues):
    order.hear(encode(1) + own(3))
    assert all_that_come(order) == [3, 1]

    order.put(queues[1], 0.0)
    order.hear(own(3))
    assert all_that_come(order) == [3, 1]

    queues[3].feed.claimed += BATCH
    order.put(queues[1], 0.0)
    order.hear(own(3))
    assert all_that_come(order) == [1, 3], "it has had its turn"

    order.put(queues[1], 0.0)
    order.hear(own(3))
    assert all_that_come(order) == [3, 1], "its next turn has begun"


def test_hinted_and_due_queues_come_up_beside_any_number_of_calls_of_others(order, queues):
    order.put(queues[0], 0.0)
    order.hear(encode(1))
    came = []
    for _ in range(rota.DUE_EVERY):
        order.hear(own(2))
        came.append(order.next().feed.number)

    assert came.count(0) == came.count(1) == 1
    assert came.index(1) < rota.HINTED_EVERY
    assert came.count(2) == rota.DUE_EVERY - 2


def test_a_hinted_queue_that_another_process_claims_from_comes_up_after_those_that_are_due(order, queues):
    words = queues[4].cursor.words
    words.backlog, words.holder, words.looked_at = 1, 2, time.monotonic_ns()
    order.put(queues[0], 0.0)
    order.hear(encode(4))
    assert all_that_come(order) == [0, 4]

    words.holder = 1
    order.put(queues[0], 0.0)
    order.hear(encode(4))
    assert all_that_come(order) == [4, 0], "that is this process itself"


def test_a_queue_with_more_to_claim_that_calls_comes_up_once(order, queues):
    order.put(queues[2], 0.0)
    order.hear(encode(2))

    assert all_that_come(order) == [2]


def test_a_queue_for_which_another_process_has_called_is_taken_up_with_the_poll(order, queues):
    queues[3].cursor.look_again()
    assert order.next() is None

    order.take_up()

    assert all_that_come(order) == [3]


def test_a_queue_takes_half_of_the_room_that_is_left_and_waits_where_there_is_hardly_any(order, queues):
    calls = []
    assert order.share(4 * BATCH) == 2 * BATCH
    assert order.share(BATCH // 10) == BATCH // 10
    assert order.share(BATCH // 10 - 1) == 0
    order.await_room(queues[1], calls.append)()
    assert calls == [ROOM]
    assert order.next() is None

    order.hear(encode(ROOM))

    assert all_that_come(order) == [1]


def test_where_no_batch_is_written_for_a_while_a_queue_takes_what_is_left(order, monkeypatch):
    monkeypatch.setattr(rota, "PATIENCE", 0.0)

    assert order.share(1) in (0, 1)
    assert order.share(1) == 1
    assert order.share(-1) == 0
