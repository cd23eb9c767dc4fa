"""Starts and durations: for those who ask by name, and at the cost of nobody else."""

import asyncio
import sys
from copy import copy
from dataclasses import dataclass

import pytest

from fastq import Args, Job, Registry, Retry, Snooze, Worker
from fastq.events import subscribe
from fastq.hooks import timing
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import KindBatch
from fastq.work.execute.settle import settle
from fastq.work.shared.called import CURRENT, DJANGO, many_of

registry = Registry()


@dataclass
class MailArgs(Args, kind="mail"):
    """The args of a job that is timed."""


@dataclass
class PostArgs(Args, kind="post"):
    """The args of jobs that are timed together."""


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> object:
        return job.id


@registry.register
class PostWorker(Worker[PostArgs]):
    up_to = 10

    def work_many(self, jobs):
        return None


@pytest.fixture
def asked():
    """Give a function that subscribes to names, and collects the events."""
    ends = []

    def ask(*names):
        collected = []
        ends.append(subscribe(collected.append, names))
        return collected

    yield ask
    for end in ends:
        end()


def found(batch, work):
    """Have a batch find its worker, with another function around its `work`."""
    worker = copy(registry.workers["mail"])
    worker.called = work
    batch.found(worker, 0)


def job_of(batch, row=0):
    """Make a job with the times of a batch."""
    made = Job.of(MailArgs(), id=7)
    made.batch.times = batch.times
    made.row = row
    return made


def test_where_nobody_asks_a_job_goes_to_its_worker_and_to_nothing_else(asked, monkeypatch):
    for name in (CURRENT, DJANGO):  # another test may have asked for the current job, or for Django
        monkeypatch.delitem(sys.modules, name, raising=False)
    asked("process.*")
    batch = KindBatch(Claimed("default", 1, []), "mail")
    worker = registry.workers["mail"]

    batch.found(worker, 0)

    assert batch.work == worker.work
    assert batch.times is None
    assert many_of(registry.workers["post"]) == registry.workers["post"].work_many


def test_a_start_is_told_with_the_age_of_the_job_before_its_work(asked):
    events, batch = asked("job.started"), KindBatch(Claimed("default", 1, []), "mail")
    found(batch, lambda job: len(events))

    assert batch.work(job_of(batch)) == 1

    [event] = events
    assert event.name == "job.started"
    assert event.fields["id"] == 7
    assert (event.fields["kind"], event.fields["queue"], event.fields["attempt"]) == ("mail", "default", 1)
    assert 0 <= event.fields["age"] < 60


def test_an_attempt_is_timed_whether_it_returns_or_raises(asked):
    asked("job.completed")
    batch = KindBatch(Claimed("default", 1, []), "mail")

    def work(job):
        if job.row:
            raise ValueError("no")

    found(batch, work)
    batch.work(job_of(batch))
    with pytest.raises(ValueError, match="no"):
        batch.work(job_of(batch, 1))

    assert all(began <= ended for began, ended in (batch.times[0], batch.times[1]))


def test_a_coroutine_is_timed_to_its_end(asked):
    events = asked("job.started", "job.completed")
    batch = KindBatch(Claimed("default", 1, []), "mail")
    ran = []

    async def work(job):
        await asyncio.sleep(0)
        ran.append(batch.times[0])
        assert timing.facts_of(job, "job.completed").keys() == {"queue", "age", "ran"}  # as where it ends in a transaction
        return 5

    batch.times = {}
    batch.work = timing.within(work, batch.times, is_async=True)

    assert asyncio.run(batch.work(job_of(batch))) == 5
    [(began, ended)] = ran
    assert ended is None
    assert batch.times[0][0] == began <= batch.times[0][1]
    assert [event.name for event in events] == ["job.started"]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_jobs_of_a_bundle_start_and_end_together(asked, is_async):
    events = asked("job.started")
    batch = KindBatch(Claimed("default", 1, []), "mail")
    batch.times = {}
    untimed = Job.of(MailArgs(), id=9)

    async def work_async(jobs):
        return len(jobs)

    work = timing.within_many(work_async if is_async else len, is_async=is_async)
    result = work([job_of(batch, 0), job_of(batch, 1), untimed])

    assert (asyncio.run(result) if is_async else result) == 3
    assert [event.fields["id"] for event in events] == [7, 7, 9]
    assert batch.times[0] == batch.times[1]
    assert untimed.batch.times is None


@pytest.mark.parametrize(
    ("outcome", "name"), [(Snooze(60), "job.snoozed"), (Retry(5), "job.failed"), (ValueError("x"), "job.failed")]
)
def test_an_end_tells_how_long_the_attempt_ran_to_those_who_ask(asked, outcome, name):
    unasked, collected = [], asked(name)
    end = subscribe(unasked.append)
    batch = KindBatch(Claimed("default", 1, []), "mail")
    batch.times = {0: (1.0, 3.5)}

    settle(job_of(batch), None, outcome)
    end()

    [event] = collected
    assert event.name == name
    assert event.fields["ran"] == 2.5
    assert event.fields["queue"] == "default"
    assert unasked == [event], "one event is made for all"


def test_where_nobody_asks_by_name_an_event_is_as_it_was(asked):
    collected = []
    end = subscribe(collected.append)

    settle(Job.of(MailArgs(), id=7), None, Snooze(60))
    end()

    assert [event.fields for event in collected] == [{"id": 7, "kind": "mail", "seconds": 60.0}]
