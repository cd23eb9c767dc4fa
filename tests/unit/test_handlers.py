"""The application's handlers: which failures they hear of, what they may decide, and that they cannot make a failure worse."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from fastq import Args, Cancel, Discard, Hook, Job, JobCancelled, JobTimeout, RateLimited, Registry, Retry, Snooze, Worker
from fastq.errors import RegistryError
from fastq.jobs.outcome import Failed, Release, fate_of, of_value
from fastq.work.execute.settle import settle


@dataclass
class CallArgs(Args, kind="call"):
    what: str = ""


def registry_of(work, *, is_async, hooks=()):
    class Sync(Worker[CallArgs]):
        def work(self, job):
            return work(job)

    class Async(Worker[CallArgs]):
        async def work(self, job):
            return work(job)

    registry = Registry(hooks=hooks)
    registry.register(Async if is_async else Sync)
    return registry


def job_of(registry, **options):
    job = Job.of(CallArgs(), **options)
    job.batch.worker = registry.workers["call"]
    return job


def settled(registry, job=None, *, leaving=False):
    """Do what a slot does with a job, and return the outcome."""
    job = job or job_of(registry)
    worker = registry.workers["call"]
    value = error = None
    try:
        value = asyncio.run(worker.called(job)) if worker.is_async else worker.called(job)
    except BaseException as raised:  # noqa: BLE001 - as a slot does
        error = raised
    return settle(job, value, error, leaving=leaving) if value is not None or error is not None else None


def fail(job):
    raise ValueError("no such user")


FORMS = {"sync": (False, "sync handler"), "async": (True, "sync handler"), "async both": (True, "async handler")}
"""Whether the work awaits, and the form of the handler: a `def work` cannot await one."""


def pytest_generate_tests(metafunc):
    if "form" in metafunc.fixturenames:
        metafunc.parametrize(("is_async", "form"), FORMS.values(), ids=FORMS)
    elif "is_async" in metafunc.fixturenames:
        metafunc.parametrize("is_async", [False, True], ids=["sync", "async"])


def handling(registry, handle, form, *, crash=False):
    """Declare a handler of one form."""
    on = registry.on_crash if crash else registry.on_error

    async def awaiting(job, about):
        await asyncio.sleep(0)
        return handle(job, about)

    on(awaiting if form == "async handler" else handle)
    return registry


@pytest.mark.parametrize("decision", [Snooze(60), RateLimited(5), Cancel("gone"), Cancel()])
@pytest.mark.parametrize("how", ["returned", "raised"])
def test_a_handler_decides_about_a_failure(is_async, form, decision, how):
    def handle(job, error):
        heard.append(error)
        if how == "raised":
            raise decision
        return decision

    heard = []
    outcome = settled(handling(registry_of(fail, is_async=is_async), handle, form))

    assert outcome == decision
    assert [f"{error!r}" for error in heard] == ["ValueError('no such user')"]


def test_a_discard_keeps_the_error_that_it_was_decided_about(is_async):
    registry = handling(registry_of(fail, is_async=is_async), lambda job, error: Discard("nobody to call"), "sync")

    fate = fate_of(settled(registry))

    kept = json.loads(fate.error)
    assert (fate.state, kept["error"]) == ("discarded", "discarded: nobody to call: ValueError: no such user")
    assert 'raise ValueError("no such user")' in kept["trace"]


@pytest.mark.parametrize(("attempt", "delay"), [(1, 7.0), (25, None)])
def test_a_retry_fails_the_attempt_with_its_own_error_and_delay(is_async, attempt, delay, events):
    registry = handling(registry_of(fail, is_async=is_async), lambda job, error: Retry(7), "sync")

    outcome = settled(registry, job_of(registry, attempt=attempt))

    assert type(outcome) is Failed
    assert outcome.delay == delay
    assert json.loads(outcome.error)["error"] == "ValueError: no such user"
    assert [(event.name, event.fields["again_in"]) for event in events] == [("job.failed", delay)]


@pytest.mark.parametrize("raised", [False, True])
def test_a_retry_of_the_work_itself_fails_the_attempt(is_async, raised):
    def work(job):
        if raised:
            raise Retry(timedelta(minutes=1))
        return Retry(60)

    outcome = settled(registry_of(work, is_async=is_async))

    assert (outcome.delay, json.loads(outcome.error)["error"]) == (60.0, "Retry: 60.0")


@pytest.mark.parametrize("seconds", [-1, "soon", float("nan"), None])
def test_a_retry_after_no_time_is_refused(seconds):
    with pytest.raises(ValueError, match="expected seconds from 0"):
        Retry(seconds)


def test_a_discard_of_the_work_itself_ends_the_job():
    outcome, problem = of_value(Discard("no such user"))

    assert problem is None
    assert fate_of(outcome).state == "discarded"
    assert json.loads(fate_of(outcome).error) == {"error": "discarded: no such user"}


def test_a_handler_that_returns_nothing_changes_nothing(is_async, form):
    registry = handling(registry_of(fail, is_async=is_async), lambda job, error: None, form)

    outcome = settled(registry)

    assert type(outcome) is Failed
    assert outcome.delay == pytest.approx(1.0, rel=0.11)
    assert "failed too" not in outcome.error


def broken(job, error):
    raise LookupError("the handler's own")


@pytest.mark.parametrize(
    ("handle", "fault"),
    [
        (broken, "LookupError: the handler's own"),
        (lambda job, error: 60, "it returned a int"),
        (lambda job, error: Snooze, "it returned a type"),
    ],
)
def test_a_handler_that_fails_hides_nothing_of_the_failure(is_async, form, handle, fault):
    outcome = settled(handling(registry_of(fail, is_async=is_async), handle, form))

    kept = json.loads(outcome.error)
    assert kept["error"] == "ValueError: no such user"
    assert f"the handler of errors failed too: {fault}" in kept["trace"]


@pytest.mark.parametrize("decision", [Snooze(5), Cancel("no"), JobCancelled("cancelled")])
def test_a_handler_hears_nothing_of_decisions_and_cancellations(is_async, form, decision):
    def work(job):
        raise decision

    heard = []
    outcome = settled(handling(registry_of(work, is_async=is_async), lambda job, error: heard.append(error), form))

    assert heard == []
    assert outcome == (Cancel("cancelled") if isinstance(decision, JobCancelled) else decision)


def test_a_job_that_leaves_with_its_process_is_handed_back_and_no_failure(is_async, form):
    def work(job):
        raise JobCancelled("the process stops")

    registry = handling(registry_of(work, is_async=is_async), lambda job, error: Snooze(5), form)

    assert settled(registry, leaving=True) == Release()


@pytest.mark.parametrize(("reason", "heard_of"), [(JobTimeout("took longer"), 1), (JobCancelled("cancelled"), 0), ("own", 1)])
def test_an_async_handler_hears_why_a_task_was_told_to_end(reason, heard_of):
    def work(job):
        raise asyncio.CancelledError(reason)

    heard = []
    handling(registry := registry_of(work, is_async=True), lambda job, error: heard.append(error), "async handler")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(registry.workers["call"].called(job_of(registry)))

    assert len(heard) == heard_of
    assert heard in ([], [reason]) or type(heard[0]) is asyncio.CancelledError


def test_a_handler_hears_of_what_hooks_have_made_of_a_failure_and_they_see_the_failure_itself(is_async):
    class Watching(Hook):
        def around(self, job):
            try:
                yield
            except ValueError as error:
                seen.append(error)
                raise LookupError("translated") from error

    seen, heard = [], []
    registry = registry_of(fail, is_async=is_async, hooks=[Watching()])

    outcome = settled(handling(registry, lambda job, error: heard.append(error) or Snooze(3), "sync"))

    assert (outcome, [type(error) for error in seen + heard]) == (Snooze(3), [ValueError, LookupError])


def test_two_handlers_of_one_form_are_refused_and_two_forms_stand_beside_each_other():
    registry = registry_of(fail, is_async=True)
    handling(registry, lambda job, error: Snooze(1), "sync")
    handling(registry, lambda job, error: Snooze(2), "async handler")

    assert settled(registry) == Snooze(2)
    with pytest.raises(RegistryError, match="on_error has two handlers with def"):
        handling(registry, lambda job, error: None, "sync")


@pytest.mark.parametrize("first", ["handler", "worker"])
def test_an_async_handler_alone_is_refused_for_a_worker_that_cannot_await(first):
    class Sync(Worker[CallArgs]):
        def work(self, job): ...

    async def handle(job, error): ...

    registry = Registry()
    steps = {"handler": lambda: registry.on_error(handle), "worker": lambda: registry.register(Sync)}
    steps.pop(first)()
    [last] = steps.values()

    with pytest.raises(RegistryError, match=r"Sync has def work, and .*handle is an async def; before it add one"):
        last()


def yielding(job, error):
    yield


@pytest.mark.parametrize(
    ("handle", "fault"),
    [(7, "expected a function, got 7"), (lambda job: None, r"takes \(job\).*write: def handle\(job"), (yielding, "has a yield")],
)
def test_a_handler_that_could_not_be_asked_is_refused(handle, fault):
    with pytest.raises(RegistryError, match=fault):
        Registry().on_error(handle)


# Crashes

NOW = datetime.now(UTC)


def crashed_job(registry, *, attempt=2, at=NOW, cause="signal 9"):
    """Make a job with the note of the recovery for its second attempt."""
    job = job_of(registry, attempt=attempt)
    noted = {"crashed": {"next": 2, "at": at.isoformat(), "crashes": 1, "cause": cause}}
    job.batch.meta = lambda row: msgspec.json.decode(msgspec.json.encode(noted))
    return job


@pytest.mark.parametrize("decision", [Cancel("it kills"), Discard("it kills"), Retry(5), Snooze(3600)])
def test_a_handler_decides_before_the_work_about_a_job_whose_process_died(is_async, form, decision):
    worked, heard = [], []
    registry = registry_of(worked.append, is_async=is_async)
    handling(registry, lambda job, crash: heard.append(crash) or decision, form, crash=True)

    outcome = settled(registry, crashed_job(registry))

    assert worked == []
    assert (heard[0].cause, heard[0].signal, heard[0].crashes, heard[0].at) == ("signal 9", 9, 1, NOW)
    assert type(outcome) is (Failed if isinstance(decision, Retry) else type(decision))


def test_after_an_exit_there_is_no_signal():
    heard = []
    registry = handling(registry_of(fail, is_async=False), lambda job, crash: heard.append(crash), "sync", crash=True)

    settled(registry, crashed_job(registry, cause="exit code 3"))

    assert (heard[0].cause, heard[0].signal) == ("exit code 3", None)


@pytest.mark.parametrize("attempt", [1, 3])
def test_the_handler_of_crashes_is_asked_in_the_attempt_after_the_crash_alone(is_async, form, attempt):
    worked, heard = [], []
    registry = registry_of(worked.append, is_async=is_async)
    handling(registry, lambda job, crash: heard.append(crash), form, crash=True)

    assert settled(registry, crashed_job(registry, attempt=attempt)) is None
    assert settled(registry, job_of(registry)) is None

    assert (len(worked), heard) == (2, [])


def test_a_snooze_after_a_crash_counts_from_the_crash_so_that_the_work_is_put_off_once(is_async, form):
    worked = []
    registry = registry_of(worked.append, is_async=is_async)
    handling(registry, lambda job, crash: Snooze(60), form, crash=True)

    first = settled(registry, crashed_job(registry, at=datetime.now(UTC) - timedelta(seconds=20)))
    again = settled(registry, crashed_job(registry, at=datetime.now(UTC) - timedelta(seconds=61)))

    assert first.seconds == pytest.approx(40, abs=5)
    assert (again, len(worked)) == (None, 1)


def test_a_handler_of_crashes_that_fails_fails_the_attempt_and_the_handler_of_errors_hears_of_it(is_async):
    registry = registry_of(fail, is_async=is_async)
    handling(registry, broken, "sync", crash=True)
    handling(registry, lambda job, error: Discard(f"{error!r}"), "sync")

    outcome = settled(registry, crashed_job(registry))

    assert outcome.reason == 'LookupError("the handler\'s own")'


def test_a_handler_of_crashes_that_returns_something_else_fails_the_attempt(is_async):
    registry = handling(registry_of(fail, is_async=is_async), lambda job, crash: 7, "sync", crash=True)

    assert "the handler of crashes returned a int, expected Snooze" in settled(registry, crashed_job(registry)).error


# Events


def test_a_snooze_is_told_of(is_async, events):
    def work(job):
        return Snooze(60)

    settled(registry_of(work, is_async=is_async))

    assert [(event.name, event.fields) for event in events] == [("job.snoozed", {"id": 1, "kind": "call", "seconds": 60.0})]
