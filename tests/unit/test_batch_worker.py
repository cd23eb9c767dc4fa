"""Mistakes in a batch worker are found when it is registered, and each job has one result, whatever `work_many` returns."""

import asyncio
import types
from contextlib import suppress
from dataclasses import dataclass

import pytest

from fastq import Args, Cancel, Hook, Job, Registry, Snooze, Worker
from fastq.errors import RegistryError, StepError
from fastq.hooks.many import results_of
from fastq.integrations.watching import Watch, Watcher


@dataclass
class Row(Args, kind="row"):
    table: str = ""


def made(body):
    """Make a class of workers."""
    return types.new_class("RowWorker", (Worker[Row],), {}, lambda own: own.update(body))


def register(body, **options):
    """Register a batch worker with this body."""
    registry = Registry(**options)
    registry.register(made({"work_many": lambda self, jobs: None} | body))
    return registry.workers["row"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"work": lambda self, job: None}, "has work and work_many; write one of them"),
        ({"mode": "loop"}, "work_many is executed in a way of its own; leave mode='loop' out"),
        ({"up_to": 0}, "up_to: expected a number of jobs from 1 on, got 0"),
        ({"up_to": True}, "up_to: expected a number of jobs"),
        ({"within": -1}, "within: expected seconds from 0 to 60, got -1"),
        ({"within": 3600}, "within: expected seconds from 0 to 60, got 3600; .* enqueued with a delay"),
        ({"same": "tabel"}, "has no field 'tabel', it has table"),
        ({"same": 5}, "same: by=5: expected the name of a field"),
        ({"same": lambda args: 1}, "same: expected the name of a field, .* got a function"),
        ({"batch_size": 10}, "did you mean up_to"),
        (
            {"isolate": True},
            "isolate: a call of work_many has many jobs, and a process of its own is for one job; write def work",
        ),
        ({"logs": True}, "logs: a call of work_many has many jobs, and a line that is logged or printed there is nobody's"),
        ({"work_many": lambda self: None}, "work_many is called with a list of jobs and nothing else"),
    ],
)
def test_a_mistake_is_refused_with_a_message_that_says_how_to_mend_it(body, message):
    with pytest.raises(RegistryError, match=message):
        register(body)


def test_a_registry_that_keeps_logs_keeps_none_of_batch_workers():
    worker = register({}, logs=True)

    assert worker.called([]) is None


def test_a_job_of_a_batch_worker_has_no_steps():
    job = Job.of(Row(), id=1)
    job.batch.worker = register({})

    with pytest.raises(StepError, match=r"job 1: a job of a batch worker has no steps, .* write def work"):
        job.step("charge", lambda: 1)


def test_a_work_many_that_yields_is_refused():
    def work_many(self, jobs):
        yield

    with pytest.raises(RegistryError, match="work_many has a yield in it"):
        register({"work_many": work_many})


@pytest.mark.parametrize("body", [{"up_to": 5}, {"within": 1.0}, {"same": "table"}])
def test_an_option_of_batch_workers_is_refused_where_there_is_no_work_many(body):
    with pytest.raises(RegistryError, match="has an effect on work_many alone"):
        Registry().register(made({"work": lambda self, job: None} | body))


def test_a_batch_worker_has_a_mode_of_its_own_in_both_forms_and_shows_it():
    async def work_many(self, jobs):
        pass

    sync, awaits = register({}), register({"work_many": work_many, "up_to": 7, "same": "table"})

    assert [(worker.mode, worker.is_async) for worker in (sync, awaits)] == [("bundles", False), ("bundles", True)]


def test_a_hook_that_does_not_know_of_bundles_is_refused_and_one_around_enqueues_is_not():
    class One(Hook):
        def around(self, job):
            yield

    class Enqueueing(Hook):
        def enqueue(self, enqueuing):
            pass

        def work_many(self, jobs, proceed):
            return proceed()

    with pytest.raises(RegistryError, match=r"has def work_many, and its hook .*One has no work_many; write def work_many"):
        register({}, hooks=[One()])
    assert register({}, hooks=[Enqueueing()]).called([]) is None


JOBS = [Job.of(Row(), id=number) for number in (1, 2, 3)]
ERROR = ValueError("no")


@pytest.mark.parametrize(
    ("value", "results"),
    [
        (None, [None, None, None]),
        (Snooze(5), [Snooze(5)] * 3),
        ([1, ERROR, Cancel("x")], [1, ERROR, Cancel("x")]),
        ({JOBS[1]: ERROR}, [None, ERROR, None]),
        ({}, [None, None, None]),
    ],
)
def test_each_job_has_its_result(value, results):
    assert list(results_of(JOBS, value)) == results


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "was given 3 jobs and returned 2 results; expected None, a list"),
        ({1: ERROR}, "a dict with the key 1, expected jobs that it was given"),
        ("done", "returned a str; expected None, a list"),
        (5, "returned a int"),
    ],
)
def test_a_value_that_says_nothing_clear_is_refused(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        results_of(JOBS, value)


class Noting(Watch):
    """Notes how each attempt ends."""

    ends = []  # noqa: RUF012 - one list for all

    def end(self, outcome, error):
        self.ends.append((self.job.id, outcome, error))


class Noter(Watcher):
    def watch(self, job):
        return Noting(job)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("value", "ends"),
    [
        ([1, ERROR, Cancel("x")], [(3, "cancelled", None), (2, "failed", ERROR), (1, "completed", None)]),
        (ERROR, [(3, "failed", ERROR), (2, "failed", ERROR), (1, "failed", ERROR)]),
        (None, [(3, "completed", None), (2, "completed", None), (1, "completed", None)]),
    ],
)
def test_a_hook_that_watches_hears_of_the_end_of_each_job(monkeypatch, is_async, value, ends):
    monkeypatch.setattr(Noting, "ends", [])

    def work_many(self, jobs):
        if value is ERROR:
            raise value
        return value

    async def work_many_async(self, jobs):
        return work_many(self, jobs)

    called = register({"work_many": work_many_async if is_async else work_many}, hooks=[Noter()]).called
    with suppress(ValueError):
        assert (asyncio.run(called(JOBS)) if is_async else called(JOBS)) is value

    assert Noting.ends == ends
