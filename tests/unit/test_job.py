"""The job object, what may come of it, and how its code is interrupted."""

import asyncio
import gc
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import repeat

import pytest

from fastq.args.kinds import Args, Kind
from fastq.errors import OptionError
from fastq.jobs.deps import Dep
from fastq.jobs.job import Job, JobCancelled, JobInterrupt, JobTimeout, State
from fastq.jobs.outcome import Cancel, Snooze

CREATED = datetime(2026, 11, 18, tzinfo=UTC)


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


class Batch:
    """What a producer's batch offers."""

    kind = "sort"
    queue = "slow"
    priorities = (1, 4)
    max_attempts = (25, 3)

    def created_at(self, row):
        return CREATED.replace(day=row + 1)

    def tags(self, row):
        return [(), ("red", "blue")][row]


def test_jobs_of_a_batch_are_made_by_position():
    batch = Batch()

    first, second = map(Job, [7, 8], [1, 3], ["a", "b"], range(2), repeat(batch))

    assert (first.id, first.attempt, first.args, first.row, first.batch) == (7, 1, "a", 0, batch)
    assert (second.id, second.attempt, second.args, second.row, second.batch) == (8, 3, "b", 1, batch)
    assert (second.outcome, second.cancelled) == (None, False)


def test_job_looks_up_the_rest_in_its_row_of_the_batch():
    job = Job(8, 3, "b", 1, Batch())

    assert (job.kind, job.queue, job.priority, job.max_attempts) == ("sort", "slow", 4, 3)
    assert (job.created_at, job.tags) == (CREATED.replace(day=2), ("red", "blue"))


def test_job_takes_what_its_executor_writes():
    job = Job(8, 3, "b", 1, Batch())

    job.outcome = Snooze(2)
    job.cancelled = True

    assert (job.outcome, job.cancelled) == (Snooze(2), True)


def test_two_jobs_are_never_equal():
    batch = Batch()

    assert Job(8, 3, "b", 1, batch) != Job(8, 3, "b", 1, batch)


def test_jobs_stay_out_of_the_collector():
    assert not gc.is_tracked(Job(8, 3, "b", 1, Batch()))


def test_job_made_by_hand_has_the_defaults_of_a_fresh_one():
    job = Job.of(SortArgs(["b", "a"]))

    assert job.args.strings == ["b", "a"]
    assert (job.id, job.attempt, job.kind, job.queue, job.priority) == (1, 1, "sort", "default", 1)
    assert (job.max_attempts, job.tags) == (25, ())
    assert abs((job.created_at - datetime.now(UTC)).total_seconds()) < 60


def test_job_made_by_hand_has_what_its_kind_states():
    @dataclass
    class MailArgs(Args, kind="mail", queue="emails", priority=2, max_attempts=5, tags=["outgoing"]):
        pass

    for job in (
        Job.of(MailArgs()),
        Job.of({}, kind=Kind("mail", dict, queue="emails", priority=2, max_attempts=5, tags=["outgoing"])),
    ):
        stated = (job.kind, job.queue, job.priority, job.max_attempts, job.tags)
        assert stated == ("mail", "emails", 2, 5, ("outgoing",))
    told = Job.of(MailArgs(), queue="q", priority=1, max_attempts=1, tags=[])
    assert (told.queue, told.priority, told.max_attempts, told.tags) == ("q", 1, 1, ())


def test_job_made_by_hand_says_what_it_was_told():
    told = {"id": 9, "attempt": 2, "kind": "x", "queue": "q", "priority": 3, "max_attempts": 4, "tags": ("t",)}

    job = Job.of({"n": 1}, **told, created_at=CREATED)

    assert {name: getattr(job, name) for name in told} == told
    assert job.created_at == CREATED


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e18, True, "60", None, timedelta(days=-1), timedelta.max])
def test_snooze_refuses_what_is_no_time_to_wait(seconds):
    with pytest.raises(ValueError, match=r"^Snooze\(.+\): expected seconds from 0 to 3153600000, or a timedelta"):
        Snooze(seconds)


def test_snooze_takes_a_timedelta_as_a_delay_does():
    assert Snooze(timedelta(minutes=2)) == Snooze(120)
    assert repr(Snooze(timedelta(seconds=1.5))) == "Snooze(seconds=1.5)"


def test_outcomes_are_values():
    assert Snooze(30) == Snooze(30.0)
    assert Cancel("no such user") == Cancel("no such user")
    assert Cancel().reason == ""


@pytest.mark.parametrize("interrupt", [JobTimeout, JobCancelled])
def test_except_exception_in_a_worker_does_not_swallow_an_interrupt(interrupt):
    def work():
        try:
            raise interrupt
        except Exception:  # noqa: BLE001 - what users write
            return "swallowed"

    with pytest.raises(JobInterrupt):
        work()


def test_states_are_named_as_in_the_database():
    assert [*State] == ["scheduled", "available", "running", "retryable", "waiting", "completed", "cancelled", "discarded"]


def test_a_job_made_by_hand_takes_a_kind_or_its_name():
    assert Job.of({}, kind=Kind("mail", dict)).kind == Job.of({}, kind="mail").kind == "mail"
    assert Job.of({}).kind == ""


def test_a_job_made_by_hand_has_the_outputs_of_the_jobs_before_it():
    job = Job.of(SortArgs(["a"]), deps={"eu/fetch": {"rows": (1, 2)}, "check": Dep(7, "discarded", None)})

    assert (job.workflow, job.workflow_step) == (1, 2)
    assert dict(job.deps) == {"eu/fetch": Dep(1, "completed", {"rows": [1, 2]}), "check": Dep(7, "discarded", None)}
    assert job.deps["fetch"].output == {"rows": [1, 2]}
    assert asyncio.run(job.deps.read())["check"].state == "discarded"
    with pytest.raises(KeyError, match="parse"):
        _ = job.deps["parse"]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, (None, None)),
        ({"deps": {}}, (1, 0)),
        ({"deps": {"a": 1}, "workflow": 7}, (7, 1)),
        ({"deps": {"a": 1}, "workflow": 7, "workflow_step": 5}, (7, 5)),
        ({"workflow_step": 3}, (1, 3)),
        ({"workflow": 7}, (7, None)),
    ],
)
def test_a_job_made_by_hand_is_the_step_that_it_is_given_or_the_one_behind_its_deps(given, place):
    job = Job.of(SortArgs(["a"]), **given)

    assert (job.workflow, job.workflow_step) == place
    assert len(job.deps) == len(given.get("deps", ()))


@pytest.mark.parametrize("output", [object(), float("nan"), "\ud800"])
def test_an_output_that_a_worker_could_not_return_is_refused(output):
    with pytest.raises(OptionError, match="deps\\['fetch'\\]: expected an output that JSON can hold"):
        Job.of(SortArgs(["a"]), deps={"fetch": output})


def test_a_job_made_for_a_test_stops_as_it_is_told():
    assert [Job.of(SortArgs([]), stopping=stopping).stopping for stopping in (True, False)] == [True, False]
    assert not Job.of(SortArgs([])).stopping
