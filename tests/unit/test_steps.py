"""Steps of a job that was made by hand: done at once, kept in memory, or with the records and signals of a test."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pytest

from fastq import Job
from fastq.errors import StepError
from fastq.testing import steps


@dataclass
class Receipt:
    number: int


def charge(number: int) -> Receipt:
    return Receipt(number)


async def charge_async(number: int) -> Receipt:
    return Receipt(number)


def test_a_job_made_by_hand_does_its_steps_and_no_time_passes():
    job = Job.of({})

    assert job.step("charge", charge, 7) == Receipt(7)
    job.sleep(timedelta(days=30))
    rows = job.cursor("rows", 0)
    rows.advance(3)
    assert rows.value == 3
    assert not job.wait_for("approved", timeout=3600)


def test_in_an_event_loop_its_steps_are_awaited():
    async def work(job):
        assert await job.step("charge", charge_async, 7) == Receipt(7)
        await job.sleep(3600)
        rows = await job.cursor("rows", 0)
        await rows.advance(3)
        return rows.value, (await job.wait_for("approved", Receipt)).value

    with steps(signals={"approved": Receipt(8)}) as remembered:
        assert asyncio.run(work(Job.of({}))) == (3, Receipt(8))

    assert remembered.done() == {"charge": {"number": 7}, "rows": 3}


def test_the_jobs_of_a_test_share_their_records_by_their_ids():
    done = []
    with steps() as remembered:
        for job_id in (1, 1, 2):
            Job.of({}, id=job_id).step("charge", lambda number: done.append(number) or number, job_id)

    assert done == [1, 2]
    assert (remembered.done(1), remembered.done(2)) == ({"charge": 1}, {"charge": 2})


def test_a_signal_without_a_timeout_has_to_be_given():
    with pytest.raises(StepError, match=r"signal 'approved': nobody sends one to a job that was made by hand"):
        Job.of({}).wait_for("approved")


def test_an_await_that_is_missing_is_told():
    async def work(job):
        signal, cursor = job.wait_for("approved", timeout=0), job.cursor("rows", 0)
        for look in (lambda: signal.value, lambda: bool(signal), lambda: cursor.value, lambda: cursor.advance(1)):
            with pytest.raises(StepError, match=r"expected `await job\."):
                look()
        await signal
        await cursor

    asyncio.run(work(Job.of({})))


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), True, "60", None])
def test_a_time_that_is_none_is_refused(wait):
    with pytest.raises(StepError, match=r"sleep\(.*\): expected seconds from 0 to"):
        Job.of({}).sleep(wait)
    if wait is not None:
        with pytest.raises(StepError, match=r"wait_for\('a', timeout=.*\): expected seconds from 0 to"):
            Job.of({}).wait_for("a", timeout=wait)


def test_a_step_may_be_a_method_a_partial_or_an_object_that_is_called():
    import functools

    class Till:
        def pay(self, number: int) -> Receipt:
            return Receipt(number)

        def __call__(self, number: int) -> Receipt:
            return Receipt(number)

    job = Job.of({})
    assert job.step("method", Till().pay, 1) == Receipt(1)
    assert job.step("partial", functools.partial(charge, 2)) == Receipt(2)
    assert job.step("object", Till(), 3) == Receipt(3)
    assert job.step("built in", max, 4, 2) == 4
