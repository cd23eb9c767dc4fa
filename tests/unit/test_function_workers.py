"""A function as a worker: the same options, checks and words as a class."""

import asyncio
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


WRONG = {
    "no annotation": (
        no_annotation,
        {},
        r"no_annotation does not say what it works; write: def no_annotation\(job: Job\[YourArgs\]",
    ),
    "args instead of a job": (no_job, {}, r"expected a parameter of type Job\[YourArgs\]"),
    "a job of anything": (no_args, {}, r"expected a parameter of type Job\[YourArgs\]"),
    "args without a kind": (no_kind, {}, r"LooseArgs is no Args class.*or @registry.worker\(kind=...\)"),
    "two parameters": (too_many, {}, r"too_many is called with a job and nothing else, but takes \(job"),
    "no parameter": (none_at_all, {}, "none_at_all is called with a job and nothing else"),
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
