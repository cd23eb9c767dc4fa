"""What a producer tells of jobs that came otherwise than their worker expects."""

import struct
from typing import TypedDict

import pytest

from fastq import Job, Kind, Registry, Worker
from fastq.work.claim.oddities import TOLD_EVERY, UNHEARD, Oddities
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import KindBatch


class Pay(TypedDict):
    amount: int


def job_with(max_attempts, stated):
    """Return a claimed job with so many attempts, of a worker that states others."""

    class PayWorker(Worker[Pay], kind=Kind("pay", Pay)):
        max_attempts = stated

        def work(self, job: Job[Pay]) -> None:
            raise AssertionError

    registry = Registry()
    registry.register(PayWorker)
    ((name, worker),) = registry.workers.items()
    counts = struct.pack(">4h", 0, 1, max_attempts, 1)
    blobs = [*(struct.pack(">q", number) for number in (7, 9)), counts, bytes(8), name.encode(), b'{"amount":5}', None, None]
    claimed = Claimed("default", 1, blobs)
    return Job(7, 1, Pay(amount=5), 0, KindBatch(claimed, name, worker, worker.work))


def test_a_job_that_has_the_default_where_its_worker_states_less_is_told_of(events):
    Oddities().look_at(job_with(25, stated=1))

    (event,) = events
    assert (event.name, event.fields) == (
        "max_attempts.differs",
        {"kind": "pay", "id": 7, "worker": 1, "job": 25, "hint": UNHEARD},
    )


@pytest.mark.parametrize(("max_attempts", "stated"), [(25, None), (25, 25), (5, 5), (3, 5)])
def test_what_the_worker_states_or_an_enqueue_asked_for_is_not(events, max_attempts, stated):
    Oddities().look_at(job_with(max_attempts, stated))

    assert events == []


def test_the_same_is_told_once_in_a_while(events):
    oddities, job = Oddities(), job_with(25, stated=1)

    oddities.look_at(job)
    oddities.unknown(job.kind, job.queue, job.id)
    oddities.look_at(job)
    oddities.unknown(job.kind, job.queue, job.id)
    assert [event.name for event in events] == ["max_attempts.differs", "kind.unknown"]
    oddities._told = {told: at - TOLD_EVERY for told, at in oddities._told.items()}
    oddities.look_at(job)

    assert len(events) == 3
