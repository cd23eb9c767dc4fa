"""Jobs that are timed: few of many, each of few, and the others pass the same code as ever."""

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass

import pytest

from fastq import Args, Registry, Worker
from fastq.work.codec import timed
from fastq.work.codec.codec import KindBatch, decode
from fastq.work.codec.timed import MOST, SHARE, Timed, around_many, choose
from fastq.work.shared.called import CURRENT
from tests.codec.claims import claimed

registry = Registry()


@dataclass
class NapArgs(Args, kind="nap"):
    pass


@dataclass
class OtherArgs(Args, kind="other"):
    pass


@registry.register
class NapWorker(Worker[NapArgs]):
    def work(self, job):
        return "slept"


@registry.register
class OtherWorker(Worker[OtherArgs]):
    async def work(self, job):
        raise ValueError("no")


def jobs_of(*counts):
    rows = [(kind, b"{}") for kind, count in zip(("nap", "other"), counts, strict=False) for _ in range(count)]
    return decode(claimed(rows), registry.workers, choose=choose).good


@pytest.fixture
def clock(monkeypatch):
    """Have the clock go by a second with each look, and give the list of what it has told."""
    told = []

    def look():
        told.append(float(len(told) + 1))
        return told[-1]

    monkeypatch.setattr(timed, "boottime", look)
    return told


@pytest.mark.parametrize("count", [1, 2, SHARE - 1, SHARE, SHARE + 1, MOST * SHARE, MOST * SHARE + 1, 5_000])
def test_the_jobs_that_are_timed_stand_for_all(count):
    jobs = jobs_of(count, 3)

    of_kind = Counter({"nap": 0, "other": 0})
    for job in jobs:
        if type(job.batch) is Timed:
            of_kind[job.kind] += job.batch.stands_for
    assert of_kind == {"nap": count, "other": 3}
    assert sum(type(job.batch) is Timed for job in jobs) == min(-(-count // SHARE), MOST) + 1


def test_no_job_is_timed_unless_that_is_asked_for():
    rows = [("nap", b"{}")] * 3

    assert {type(job.batch) for job in decode(claimed(rows), registry.workers).good} == {KindBatch}


def test_a_job_that_is_not_timed_calls_work_itself_and_no_clock(clock, monkeypatch):
    for name in (CURRENT, "django.conf"):  # another test may have asked for the current job, or for Django
        monkeypatch.delitem(sys.modules, name, raising=False)
    plain = next(job for job in jobs_of(SHARE) if type(job.batch) is KindBatch)

    assert plain.batch.work == registry.workers["nap"].work
    assert plain.batch.work(plain) == "slept"
    assert clock == []


def test_the_time_of_a_job_is_that_of_its_work_whether_it_returns_or_raises(clock):
    nap, other = jobs_of(1, 1)

    assert nap.batch.work(nap) == "slept"
    with pytest.raises(ValueError, match="no"):
        asyncio.run(other.batch.work(other))

    assert [(job.batch.stopwatch.began, job.batch.stopwatch.ended) for job in (nap, other)] == [(1.0, 2.0), (3.0, 4.0)]


def test_a_batch_of_its_own_says_of_the_job_what_that_of_its_neighbours_would(clock):
    [job] = jobs_of(1)

    assert (job.kind, job.queue, job.priority, job.max_attempts, job.tags, dict(job.meta)) == ("nap", "default", 1, 25, (), {})
    assert job.batch.enqueued == job.created_at.timestamp()
    assert job.batch.claim == job.batch._claimed.claim
    plain = next(one.batch for one in jobs_of(SHARE) if type(one.batch) is KindBatch)
    whole = Timed(plain, 3, SHARE)
    assert {name for name in KindBatch.__slots__ if getattr(whole, name) is not getattr(plain, name)} == {"work"}
    job.batch.timeout = 5.0  # as a rule around the attempt writes it
    assert job.batch.timeout == 5.0


def test_the_jobs_of_a_bundle_have_its_time_and_one_without_such_jobs_is_called_as_it_is(clock):
    jobs = jobs_of(3)

    assert around_many(len, jobs, is_async=False)(jobs) == 3

    (chosen,) = (job for job in jobs if type(job.batch) is Timed)
    assert (chosen.batch.stopwatch.began, chosen.batch.stopwatch.ended) == (1.0, 2.0)
    others = [job for job in jobs if job is not chosen]
    assert around_many(len, others, is_async=False) is len
