"""A function as a worker: the same options, checks and words as a class."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

import pytest

from fastq import Args, Hook, Job, Kind, Registry, Unique, Worker
from fastq.errors import RegistryError

if TYPE_CHECKING:
    from fastq import Job as OtherJob


@dataclass
class MailArgs(Args, kind="mail"):
    to: str


@dataclass
class LooseArgs:
    to: str


class MailDict(TypedDict):
    to: str


class Quiet(Hook):
    def around(self, job):
        yield


@pytest.fixture
def registry():
    return Registry()


def test_a_function_works_the_kind_of_its_jobs_and_stays_as_it_was(registry):
    @registry.worker
    def mail(job: Job[MailArgs]) -> str:
        """Mail it."""
        return f"to {job.args.to}"

    worker = registry.workers["mail"]
    job = Job.of(MailArgs("ada"))

    assert mail(job) == worker.work(job) == worker.called(job) == "to ada"
    assert worker.called is mail, "nothing stands around it"
    assert (worker.is_async, worker.timeout, worker.mode, type(worker).__doc__) == (False, 60.0, "threads", "Mail it.")
    assert type(worker).__qualname__.endswith("<locals>.mail")


def test_an_async_function_works_on_the_event_loop(registry):
    @registry.worker()
    async def mail(job: "Job[MailArgs]") -> str:
        return f"to {job.args.to}"

    worker = registry.workers["mail"]

    assert (worker.is_async, worker.mode) == (True, "loop")
    assert asyncio.run(worker.called(Job.of(MailArgs("ada")))) == "to ada"


def test_it_takes_the_options_of_a_worker(registry):
    @dataclass
    class FullArgs(Args, kind="full"):
        to: str

    hook = Quiet()

    @registry.worker(
        queue="slow",
        priority=3,
        max_attempts=5,
        timeout=None,
        unique=Unique("to"),
        expires=60,
        deadline=timedelta(hours=1),
        hooks=[hook],
        archive=False,
        retry_delay=lambda attempt, error: 2.0 * attempt,
    )
    def full(job: Job[FullArgs]) -> None: ...

    worker = registry.workers["full"]

    assert (worker.kind.queue, worker.kind.priority, worker.kind.max_attempts) == ("slow", 3, 5)
    assert (worker.timeout, worker.archive, list(worker.hooks)) == (None, False, [hook])
    assert worker.kind.unique == Unique("to")
    assert (worker.kind.expires, worker.kind.deadline, worker.kind.keep_trying_for) == (60.0, 3600.0, None)
    assert worker.retry_delay(4, ValueError()) == 8.0


def test_a_function_that_takes_many_jobs_is_a_batch_worker(registry):
    @registry.worker(up_to=7, within=0.1, same="to", timeout=5.0)
    def mail_many(jobs: Sequence[Job[MailArgs]]) -> list[str]:
        return [job.args.to for job in jobs]

    worker = registry.workers["mail"]
    jobs = [Job.of(MailArgs("ada")), Job.of(MailArgs("bob"))]

    assert worker.called(jobs) == mail_many(jobs) == ["ada", "bob"]
    assert (worker.mode, worker.is_async, worker.takes_many) == ("bundles", False, True)
    assert (worker.up_to, worker.within, worker.same, worker.timeout) == (7, 0.1, "to", 5.0)


def test_an_async_function_that_takes_many_jobs_is_a_batch_worker_with_the_options_of_a_class(registry):
    @registry.worker
    async def mail_many(jobs: "Sequence[Job[MailArgs]]") -> None: ...

    worker = registry.workers["mail"]

    assert (worker.mode, worker.is_async, worker.takes_many) == ("bundles", True, True)
    assert (worker.up_to, worker.within, worker.same) == (Worker.up_to, Worker.within, None)


def test_args_without_a_kind_of_their_own_are_named_by_an_option(registry):
    @registry.worker(kind=Kind("letter", MailDict))
    def letter(job: Job[MailDict]) -> None: ...

    @registry.worker(kind=Kind("loose", LooseArgs))
    def loose(job: Job[LooseArgs]) -> None: ...

    assert sorted(registry.workers) == ["letter", "loose"]


def no_annotation(job): ...


def no_job(job: MailArgs) -> None: ...


def no_args(job: Job) -> None: ...


def no_kind(job: Job[LooseArgs]) -> None: ...


def too_many(job: Job[MailArgs], more: int) -> None: ...


def none_at_all() -> None: ...


def types_alone(job: "OtherJob[MailArgs]") -> None: ...


def yielding(job: Job[MailArgs]):
    yield


def many(jobs: Sequence[Job[MailArgs]]) -> None: ...


def many_in_a_list(jobs: list[Job[MailArgs]]) -> None: ...


def many_args(jobs: Sequence[MailArgs]) -> None: ...


def many_of_anything(jobs: Sequence) -> None: ...


def yielding_many(jobs: Sequence[Job[MailArgs]]):
    yield


def one(job: Job[MailArgs]) -> None: ...


WRONG = {
    "no annotation": (
        no_annotation,
        {},
        r"no_annotation does not say what it works; write: def no_annotation\(job: Job\[YourArgs\]",
    ),
    "args instead of a job": (no_job, {}, r"expected a parameter of type Job\[YourArgs\]"),
    "a job of anything": (no_args, {}, r"expected a parameter of type Job\[YourArgs\]"),
    "args without a kind": (no_kind, {}, r"LooseArgs is no Args class.*or @registry.worker\(kind=...\)"),
    "two parameters": (too_many, {}, r"too_many is called with a job, or with a list of jobs, and nothing else, but takes \(job"),
    "no parameter": (none_at_all, {}, "none_at_all is called with a job, or with a list of jobs, and nothing else"),
    "a list of jobs": (many_in_a_list, {}, r"of type Job\[YourArgs\] or Sequence\[Job\[YourArgs\]\], got list\[.*MailArgs"),
    "a sequence of args": (many_args, {}, r"expected a parameter of type Job\[YourArgs\] or Sequence.*, got .*MailArgs"),
    "a sequence of anything": (many_of_anything, {}, r"expected a parameter of type Job\[YourArgs\] or Sequence.*, got Sequence"),
    "a yield in a batch worker": (yielding_many, {}, "work_many has a yield in it"),
    "a batch worker with logs": (many, {"logs": True}, "many.logs: a call of work_many has many jobs"),
    "an isolated batch worker": (many, {"isolate": True}, "many.isolate: a call of work_many has many jobs"),
    "a batch of none": (many, {"up_to": 0}, "many.up_to: expected a number of jobs from 1 on, got 0"),
    "a batch after an hour": (many, {"within": 3600}, "many.within: expected seconds from 0 to 60, got 3600"),
    "a batch by no field": (many, {"same": "from"}, "has no field 'from', it has to"),
    "another's word of batches": (many, {"batch_size": 3}, "takes no batch_size; did you mean up_to?"),
    "a hook for one job": (many, {"hooks": [Quiet()]}, "its hook .*Quiet has no work_many"),
    "an option of batches": (one, {"up_to": 3}, r"up_to has an effect on functions .*\(jobs: Sequence\[Job\[MailArgs"),
    "for type checkers alone": (types_alone, {}, "annotation 'OtherJob.*' cannot be read.*not for type checkers alone"),
    "a yield": (yielding, {}, "has a yield in it"),
    "a class": (Worker, {}, "register a class with @registry.register"),
    "no function": (print, {}, "expected a def or an async def"),
    "a slip": (no_job, {"timout": 3}, "takes no timout; did you mean timeout?"),
    "another's word": (no_job, {"max_retries": 3}, "takes no max_retries; did you mean max_attempts?"),
    "an option of the args": (no_job, {"tags": ["a"]}, "takes no tags; tags are the args' own"),
    "a bad value": (lambda job: None, {"timeout": -1}, "does not say what it works"),
    "another kind": (no_kind, {"kind": Kind("mail", MailDict)}, r"no_kind is a Worker\[LooseArgs\], but kind=Kind\('mail'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_refused_with_the_remedy(registry, name):
    function, options, fault = WRONG[name]

    with pytest.raises(RegistryError, match=fault):
        registry.worker(**options)(function)
    assert not registry.workers


def test_a_bad_value_of_an_option_is_refused_as_in_a_class(registry):
    def mail(job: Job[MailArgs]) -> None: ...

    with pytest.raises(RegistryError, match=r"mail.timeout: expected seconds above 0"):
        registry.worker(timeout=-1)(mail)


def test_a_second_worker_of_the_kind_is_refused_with_both_places(registry):
    @registry.worker
    def first(job: Job[MailArgs]) -> None: ...

    with pytest.raises(RegistryError, match=r"kind 'mail' has two workers: .*first and .*second"):

        @registry.worker
        def second(job: Job[MailArgs]) -> None: ...
