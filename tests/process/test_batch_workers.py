"""Batch workers in real processes: jobs come together, end each with an outcome of its own, and die together only once."""

import os
import signal
from itertools import combinations_with_replacement

import pytest

from fastq import Client, Enqueue
from tests.helpers import wait_for
from tests.process.bundled import AsyncMany, Many, Narrow

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.bundled:registry"
FORMS = ("many", "async_many")
SLOW = ("slow", "async_slow")
form = pytest.mark.parametrize("kind", FORMS)
slow = pytest.mark.parametrize("kind", SLOW)


def bundles(jobs, attempt=1):
    """Return the jobs of each call of `work_many`, as sets."""
    calls = {}
    for line in jobs.told():
        if line.what.startswith("with ") and line.attempt == attempt:
            calls.setdefault((line.pid, line.what, line.attempt), []).append(line.id)
    return sorted(map(sorted, calls.values()))


def cancel(jobs, *ids):
    """Ask for the cancellation of running jobs, as an operator does."""
    jobs.execute("update fastq.job set cancel_requested = true where id = any (%s)", list(ids))
    jobs.execute("select pg_notify('fastq', '@cancel')")


def charged(jobs, ids):
    """Tell of each job: state, attempt, crashes, number of errors."""
    return {(fate.state, fate.attempt, fate.crashes, len(fate.errors)) for fate in map(jobs.fate, ids)}


@pytest.mark.parametrize("kind", [*FORMS, "by_function"])
def test_jobs_come_together_up_to_the_number_and_the_rest_after_its_time(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{}] * 12)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert bundles(jobs) == [ids[:5], ids[5:10], ids[10:]]
    assert charged(jobs, ids) == {("completed", 1, 0, 0)}
    last, first = jobs.told("one of 2", ids[10]), jobs.told("one of 5", ids[0])
    assert last[0].at - first[0].at > 0.25


@form
def test_the_jobs_of_a_call_have_one_value_of_the_field(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"key": key} for key in "abababab"])
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert bundles(jobs) == [ids[::2], ids[1::2]]


@form
@pytest.mark.parametrize("how", ["list", "dict"])
def test_each_job_has_an_outcome_of_its_own(jobs, supervise, kind, how):
    whats = ["value", "fail", "cancel", "nothing", how]
    ids = jobs.add_all(kind, [{"what": what} for what in whats])
    supervisor = supervise(APP)
    jobs.wait_until_none_is_left()

    fates = [jobs.fate(id_) for id_ in ids]
    assert [fate.state for fate in fates] == ["completed", "completed", "cancelled", "completed", "completed"]
    assert [fate.attempt for fate in fates] == [1, 2, 1, 1, 1]
    assert [fate.output for fate in fates] == [ids[0], None, None, None, None]
    assert [error["error"] for error in fates[1].errors] == [f"ValueError: no {ids[1]}"]
    assert supervisor.said.count("job.failed") == 1


@form
def test_an_exception_fails_all_attempts_and_each_job_is_tried_again(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "raise"}] * 3)
    supervisor = supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("completed", 2, 0, 1)}
    assert all(jobs.fate(id_).errors[0]["error"] == "ValueError: all of them" for id_ in ids)
    assert supervisor.said.count("job.failed") == 3


@form
def test_a_decision_is_one_for_all(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "snooze all"}] * 3)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("completed", 1, 0, 0)}


@form
def test_a_list_of_another_length_fails_all_and_says_so(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "few"}] * 2, max_attempts=1)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("discarded", 1, 0, 1)}
    assert "was given 2 jobs and returned 0 results" in jobs.fate(ids[0]).errors[0]["error"]


@form
def test_the_death_of_the_process_is_charged_to_all_jobs_once_and_then_they_come_alone(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "kill once"}] + [{}] * 4)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert bundles(jobs) == [ids]
    assert charged(jobs, ids) == {("completed", 2, 1, 1)}
    assert {jobs.fate(id_).errors[0]["died"] for id_ in ids} == {"signal 9"}
    assert bundles(jobs, attempt=2) == [[id_] for id_ in ids]


@form
def test_jobs_that_wait_for_others_when_the_process_dies_are_not_charged(jobs, supervise, kind):
    killer = jobs.add_all(kind, [{"what": "kill once", "key": "k"}] * 5)
    waiting = jobs.add_all(kind, [{"key": "w"}] * 3)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, killer) == {("completed", 2, 1, 1)}
    assert charged(jobs, waiting) == {("completed", 1, 0, 0)}


def test_a_job_that_always_kills_is_discarded_and_those_that_came_with_it_are_not(jobs, supervise):
    poison, *others = ids = jobs.add_all("many", [{"what": "kill"}] + [{}] * 4)
    supervise(APP, max_crashes="2")
    jobs.wait_until_none_is_left(60)

    assert bundles(jobs) == [ids]
    assert jobs.fate(poison).state == "discarded"
    assert {jobs.fate(id_).state for id_ in others} == {"completed"}


@form
def test_a_kill_from_outside_is_charged_to_each_job_of_all_bundles_once(jobs, supervise, kind, tmp_path):
    gate = tmp_path / "gate"
    ids = jobs.add_all(kind, [{"what": "wait", "gate": str(gate)}] * 10)
    supervisor = supervise(APP)
    jobs.wait_until_told("one of 5", times=10)
    os.kill(supervisor.workers[0], signal.SIGKILL)
    supervisor.wait_until_it_says("jobs.recovered")
    gate.touch()
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("completed", 2, 1, 1)}


@slow
def test_a_call_that_takes_too_long_is_interrupted_and_fails_each_job(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "hang"}] * 3, max_attempts=1)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("discarded", 1, 0, 1)}
    assert "took longer than" in jobs.fate(ids[0]).errors[0]["error"]


@slow
def test_a_call_that_nothing_interrupts_is_given_up_for_each_of_its_jobs(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "sleep"}] * 3, max_attempts=1)
    supervisor = supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("discarded", 1, 0, 1)}
    assert supervisor.said.count("job.given_up") == 3
    assert "process.recycles" in supervisor.said


def test_a_loop_that_a_bundle_blocks_hands_other_bundles_back(jobs, supervise, tmp_path):
    gate = tmp_path / "gate"
    waits = jobs.add_all("async_many", [{"what": "wait", "gate": str(gate)}] * 5)
    supervise(APP)
    jobs.wait_until_told("one of 5", times=5)
    blocks = jobs.add_all("async_slow", [{"what": "sleep"}] * 2, max_attempts=1)
    wait_for(lambda: len({line.pid for line in jobs.told("one of 5") if line.id == waits[0]}) == 2, 30.0, "another process")
    gate.touch()
    jobs.wait_until_none_is_left(30)

    assert charged(jobs, blocks) == {("discarded", 1, 0, 1)}
    assert charged(jobs, waits) == {("completed", 1, 0, 0)}


@form
def test_one_cancelled_job_of_a_bundle_is_told_and_the_others_go_on(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "watch"}] * 3)
    supervise(APP)
    jobs.wait_until_told("one of 3", times=3)
    cancel(jobs, ids[1])
    jobs.wait_until_none_is_left()

    assert [jobs.fate(id_).state for id_ in ids] == ["completed", "cancelled", "completed"]


@form
def test_a_cancelled_job_of_a_bundle_that_fails_is_not_tried_again(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "watch and raise"}] * 3)
    supervise(APP)
    jobs.wait_until_told("one of 3", times=3)
    cancel(jobs, ids[1])
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids[::2]) == {("completed", 2, 0, 1)}
    assert (jobs.fate(ids[1]).state, jobs.fate(ids[1]).attempt) == ("cancelled", 1)
    assert "cancelled while running" in jobs.fate(ids[1]).errors[-1]["error"]


@form
def test_a_bundle_of_which_all_jobs_are_cancelled_is_interrupted(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "hang"}] * 3)
    supervise(APP)
    jobs.wait_until_told("one of 3", times=3)
    cancel(jobs, *ids)
    jobs.wait_until_none_is_left()

    assert {jobs.fate(id_).state for id_ in ids} == {"cancelled"}


def test_a_job_that_is_cancelled_while_it_waits_for_others_does_not_start(jobs, supervise):
    ids = jobs.add_all("patient_many", [{}] * 4)
    supervise(APP)
    wait_for(lambda: {jobs.fate(id_).state for id_ in ids} == {"running"}, what="the jobs to be claimed")
    cancel(jobs, ids[0])
    # The process hears of it before the job comes that fills the bundle: one supervisor sends the one after the other.
    probe = jobs.add("many", what="hang")
    jobs.wait_until_told("one of 1", probe)
    cancel(jobs, probe)
    jobs.wait_for(probe, "cancelled")
    ids += jobs.add_all("patient_many", [{}])
    jobs.wait_until_none_is_left()

    assert ids[1:] in bundles(jobs)
    assert jobs.fate(ids[0]).state == "cancelled"
    assert charged(jobs, ids[1:]) == {("completed", 1, 0, 0)}


def test_jobs_that_wait_for_others_are_handed_back_when_the_process_stops(jobs, supervise):
    ids = jobs.add_all("patient_many", [{}] * 4)
    supervisor = supervise(APP)
    wait_for(lambda: {jobs.fate(id_).state for id_ in ids} == {"running"}, what="the jobs to be claimed")
    code, took = supervisor.stop()

    assert (code, charged(jobs, ids)) == (0, {("available", 0, 0, 0)})
    assert took < 5
    assert jobs.told() == []


@form
def test_a_bundle_that_outlasts_the_shutdown_timeout_is_handed_back_uncharged(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "hang"}] * 3)
    supervisor = supervise(APP, shutdown_timeout="0.3")
    jobs.wait_until_told("one of 3", times=3)
    code, _ = supervisor.stop()

    assert (code, charged(jobs, ids)) == (0, {("available", 0, 0, 0)})


@form
def test_a_bundle_that_runs_when_the_process_is_told_to_stop_ends_in_its_own_time(jobs, supervise, kind, tmp_path):
    gate = tmp_path / "gate"
    ids = jobs.add_all(kind, [{"what": "wait", "gate": str(gate)}] * 3)
    supervisor = supervise(APP)
    jobs.wait_until_told("one of 3", times=3)
    supervisor.send(signal.SIGTERM)
    gate.touch()
    code, _ = supervisor.wait()

    assert (code, charged(jobs, ids)) == (0, {("completed", 1, 0, 0)})


@form
def test_a_job_that_expired_while_it_was_claimed_is_left_out_of_its_bundle(jobs, supervise, kind):
    args = {"many": Many, "async_many": AsyncMany}[kind]
    with Client(jobs.url) as client:
        fine, late = client.enqueue_many([Enqueue(args()), Enqueue(args(), expires=0.001)])
        due, missed = client.enqueue_many([Enqueue(args(), deadline=600), Enqueue(args(), deadline=0.001)])
        supervise(APP)
        jobs.wait_until_none_is_left()
        found = {id_: client.get(id_) for id_ in (fine, late, due, missed)}

    assert (found[late].state, found[late].cause) == ("cancelled", "expired")
    assert (found[missed].state, found[missed].cause) == ("cancelled", "deadline")
    assert bundles(jobs) == [[fine, due]]


@form
def test_the_shortest_deadline_of_its_jobs_is_the_time_of_a_call(jobs, supervise, kind):
    args = {"many": Many, "async_many": AsyncMany}[kind]
    supervise(APP)
    with Client(jobs.url) as client:
        ids = client.enqueue_many([Enqueue(args("hang"), deadline=span, max_attempts=1) for span in (4, 600)])
    jobs.wait_until_none_is_left()

    assert bundles(jobs) == [ids]
    assert charged(jobs, ids) == {("discarded", 1, 0, 1)}
    assert "took longer than 3." in jobs.fate(ids[1]).errors[0]["error"]


@form
def test_each_job_of_a_bundle_may_end_in_a_transaction_of_its_own(jobs, supervise, kind):
    jobs.execute("create table effect (job bigint)")
    ids = jobs.add_all(kind, [{"what": "effect"}] * 4)
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert [job for (job,) in jobs.execute("select job from effect order by job")] == ids
    assert charged(jobs, ids) == {("completed", 1, 0, 0)}


def test_a_gate_lets_no_more_jobs_into_bundles_than_into_slots(jobs, supervise):
    with Client(jobs.url) as client:
        ids = client.enqueue_many([Narrow() for _ in range(6)])
    supervise(APP)
    jobs.wait_until_none_is_left()

    assert charged(jobs, ids) == {("completed", 1, 0, 0)}
    assert {line.what for line in jobs.told() if line.what.startswith("one of")} <= {"one of 1", "one of 2"}


@form
def test_a_hook_stands_around_each_call_and_a_handler_decides_about_each_job(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "fail"}] + [{"what": "value"}] * 2)
    supervise("tests.process.bundled:watched")
    jobs.wait_until_none_is_left()

    assert [jobs.fate(id_).state for id_ in ids] == ["cancelled", "completed", "completed"]
    assert "by the handler" in jobs.fate(ids[0]).errors[0]["error"]
    assert [line.id for line in jobs.told("hook around 3")] == [ids[0]]


@form
def test_the_handler_of_crashes_is_asked_about_each_job_of_a_bundle(jobs, supervise, kind):
    ids = jobs.add_all(kind, [{"what": "kill once"}, {}, {}])
    supervise("tests.process.bundled:watched")
    jobs.wait_until_none_is_left()

    assert {jobs.fate(id_).state for id_ in ids} == {"cancelled"}
    assert all("after signal 9" in jobs.fate(id_).errors[-1]["error"] for id_ in ids)


WAYS = {"def work": "nap", "async def work": "async_nap", "def work_many": "many", "async def work_many": "async_many"}


@pytest.mark.parametrize(("one", "other"), list(combinations_with_replacement(WAYS, 2)))
def test_each_form_and_way_of_executing_works_beside_each_other_in_one_queue(jobs, supervise, one, other):
    ids = {way: [] for way in (one, other)}
    for _ in range(30):
        for way in ids:
            ids[way] += jobs.add_all(WAYS[way], [{}, {}], wake=False)
    supervise("tests.process.bundled:mixed")
    jobs.wait_until_none_is_left()

    together = {id_ for bundle in bundles(jobs) if len(bundle) > 1 for id_ in bundle}
    for way, of_way in ids.items():
        assert charged(jobs, of_way) == {("completed", 1, 0, 0)}
        assert {line.id for line in jobs.told("end")} >= set(of_way)
        assert bool(together & set(of_way)) is way.endswith("many")


def test_plain_jobs_of_a_queue_wait_for_no_bundle(jobs, supervise):
    waiting = jobs.add_all("many", [{"what": "hang"}] * 20)
    supervise("tests.process.bundled:mixed")
    jobs.wait_until_told("one of 5", times=20)
    plain = jobs.add_all("nap", [{}] * 4)
    for id_ in plain:
        jobs.wait_for(id_, "completed")

    assert {jobs.fate(id_).state for id_ in waiting} == {"running"}
