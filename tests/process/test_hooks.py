"""Hooks and handlers in real processes, around work in threads and on the event loop."""

import json

import pytest

from fastq import Client
from tests.process.hooked import LoopArgs, ThreadArgs

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.hooked:registry"


@pytest.fixture(params=[ThreadArgs, LoopArgs], ids=["in a thread", "on the loop"])
def args(request):
    return request.param


@pytest.fixture
def work(supervise, jobs, args):
    """Give a function that works a job, and returns its fate and what was told of it."""

    def ended(what, **options):
        with Client(jobs.url) as client:
            job_id = client.enqueue(args(what), **options)
        fate = jobs.wait_for(job_id, "completed", "cancelled", "discarded", timeout=20.0)
        return fate, [line.what for line in jobs.told(id_=job_id)]

    supervise(APP)
    return ended


ORDER = ["registry>", "kind>", "worker>", "work", "<worker", "<kind", "<registry"]


def test_hooks_of_all_places_stand_around_the_work_and_see_what_was_carried(work):
    fate, told = work("tenant")

    assert told == ORDER
    assert fate.output == "tenant of tenant"


def test_the_job_is_the_current_one_and_stands_on_the_applications_records(work, args):
    name = "in_thread" if args is ThreadArgs else "on_loop"

    assert work("ask")[0].output is True
    assert work("log")[0].output == [True, name, "default", 1]


def test_a_thread_of_asyncio_inherits_the_current_job(supervise, jobs):
    supervise(APP)
    with Client(jobs.url) as client:
        job_id = client.enqueue(LoopArgs("ask in a thread"))

    assert jobs.wait_for(job_id, "completed").output is True


@pytest.mark.parametrize(("what", "state"), [("fail and cancel", "cancelled"), ("fail and discard", "discarded")])
def test_the_handler_of_errors_ends_a_job(work, what, state):
    fate, told = work(what)

    assert (fate.state, fate.attempt) == (state, 1)
    assert fate.errors[0]["error"] == f"{state}: handled: ValueError: {what}"
    assert "raise ValueError(what)" in fate.errors[0]["trace"]
    assert told[-1] == "asked about ValueError"


def test_the_handler_of_errors_sets_the_delay_of_a_retry(work):
    fate, told = work("fail and retry", max_attempts=3)

    assert (fate.state, fate.attempt, len(fate.errors)) == ("discarded", 3, 3)
    assert told.count("asked about ValueError") == 3


def test_the_handler_of_errors_hears_of_a_timeout(work):
    fate, told = work("sleep")

    assert "asked about JobTimeout" in told
    assert fate.state == "discarded"
    assert "discarded: too slow: JobTimeout: took longer than 0.5 s" in fate.errors[0]["error"]


def test_the_handler_of_crashes_ends_a_job_before_it_works_again(work):
    fate, told = work("die and discard")

    assert [line for line in told if line in ("work", "died by signal 9")] == ["work", "died by signal 9"]
    assert (fate.state, fate.attempt, fate.crashes) == ("discarded", 2, 1)
    assert [error.get("died") for error in fate.errors] == ["signal 9", None]
    assert fate.errors[1]["error"] == "discarded: it kills"


def test_the_handler_of_crashes_puts_a_job_off_once(work, jobs):
    fate, told = work("die and snooze")

    assert (fate.state, fate.attempt, fate.crashes) == ("completed", 2, 1)
    assert [line for line in told if line in ("work", "died by signal 9")] == ["work", *["died by signal 9"] * 2, "work"]


def test_a_crash_that_the_handler_lets_pass_is_followed_by_the_work(work, jobs):
    fate, told = work("die")

    assert (fate.state, fate.attempt) == ("completed", 2)
    assert told[-len(ORDER) :] == ORDER
    [(meta,)] = jobs.execute("select meta from fastq.job_archive")
    assert (meta["crashed"]["next"], meta["crashed"]["crashes"], meta["carried"]) == (2, 1, {"tenant": "tenant of die"}), (
        json.dumps(meta)
    )
