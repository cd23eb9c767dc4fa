"""Workers and their registry: what is found when a worker is registered, and what is refused with which words."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

import pytest

from fastq.args.kinds import Args, Kind, kind_of
from fastq.errors import RegistryError
from fastq.jobs.job import Job
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker

A = TypeVar("A")


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


class MailDict(TypedDict):
    to: str


MAIL = Kind("mail", MailDict)


@pytest.fixture
def registry():
    return Registry()


def refused(registry, worker):
    with pytest.raises(RegistryError) as caught:
        registry.register(worker)
    assert not registry.workers
    return str(caught.value)


def test_worker_is_found_by_the_kind_of_its_args(registry):
    @registry.register
    class SortWorker(Worker[SortArgs]):
        def work(self, job):
            job.args.strings.sort()

    worker = registry.workers["sort"]
    job = Job.of(SortArgs(["b", "a"]))
    worker.work(job)

    assert isinstance(worker, SortWorker)
    assert worker.kind is kind_of(job.args)
    assert (worker.timeout, worker.archive, worker.is_async) == (60.0, True, False)
    assert job.args.strings == ["a", "b"]


def test_worker_of_a_typeddict_is_found_by_its_handle(registry):
    @registry.register
    class MailWorker(Worker[MailDict], kind=MAIL):
        async def work(self, job):
            pass

    assert registry.workers["mail"].kind is MAIL
    assert registry.workers["mail"].is_async


def test_worker_that_needs_something_is_registered_as_an_instance(registry):
    class SortWorker(Worker[SortArgs]):
        def __init__(self, smtp):
            self.smtp = smtp

        def work(self, job):
            pass

    worker = SortWorker("localhost")

    assert registry.register(worker) is worker
    assert registry.workers["sort"] is worker


def test_worker_may_derive_from_a_generic_or_a_finished_one(registry):
    class Logged(Worker[A], Generic[A]):
        def work(self, job):
            pass

    class SortWorker(Logged[SortArgs]):
        pass

    @registry.register
    class LoudSortWorker(SortWorker):
        pass

    assert isinstance(registry.workers["sort"], LoudSortWorker)


def test_workers_cannot_be_added_behind_the_registrys_back(registry):
    with pytest.raises(TypeError):
        registry.workers["sort"] = None


def test_retry_delay_is_the_default_unless_overridden():
    class Eager(Worker[SortArgs]):
        def retry_delay(self, attempt, error):
            return 0.5 * attempt

    assert 14.4 <= Worker().retry_delay(2, ValueError()) <= 17.6
    assert Eager().retry_delay(2, ValueError()) == 1.0


# Options


def test_worker_gives_its_kind_the_options_that_the_args_leave_open(registry):
    @dataclass
    class Resize(Args, kind="resize", priority=2):
        path: str

    @registry.register
    class ResizeWorker(Worker[Resize]):
        queue = "images"
        max_attempts = 3
        priority = 2

        def work(self, job):
            pass

    kind = kind_of(Resize(""))
    assert (kind.queue, kind.priority, kind.max_attempts) == ("images", 2, 3)


def test_option_that_args_and_worker_state_differently_is_refused_with_both_places(registry):
    @dataclass
    class Resize(Args, kind="resize", queue="slow"):
        path: str

    class ResizeWorker(Worker[Resize]):
        queue = "images"
        max_attempts = 3

        def work(self, job):
            pass

    message = refused(registry, ResizeWorker)

    assert "kind 'resize': queue is 'slow' in" in message
    assert "Resize and 'images' in" in message
    assert kind_of(Resize("")).max_attempts is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "Bad Queue"}, "queue 'Bad Queue': expected 1 to 63"),
        ({"priority": 9}, "priority 9: expected a whole number from 1"),
        ({"max_attempts": 0}, "max_attempts 0: expected a whole number from 1"),
        ({"timeout": 0}, "timeout: expected seconds above 0, or None for no limit; got 0"),
        ({"timeout": "30"}, "timeout: expected seconds above 0, or None for no limit; got '30'"),
        ({"timeout": float("nan")}, "timeout: expected seconds above 0"),
        ({"timeout": True}, "timeout: expected seconds above 0, or None for no limit; got True"),
        ({"archive": "no"}, "archive: expected True or False, got 'no'"),
        ({"retry_delay": 3}, "retry_delay: expected a method, got 3; write: def retry_delay(self, attempt: int, error:"),
    ],
)
def test_bad_option_is_refused_with_the_rule(registry, options, words):
    class SortWorker(Worker[SortArgs]):
        locals().update(options)

        def work(self, job):
            pass

    assert words in refused(registry, SortWorker)


def test_no_timeout_is_a_choice(registry):
    @registry.register
    class SortWorker(Worker[SortArgs]):
        timeout = None

        def work(self, job):
            pass

    assert registry.workers["sort"].timeout is None


# Mistakes


def test_second_worker_of_a_kind_is_refused_with_both_places(registry):
    class First(Worker[SortArgs]):
        def work(self, job):
            pass

    class Second(First):
        pass

    registry.register(First)

    with pytest.raises(RegistryError, match=r"kind 'sort' has two workers: .*First and .*Second"):
        registry.register(Second)
    assert type(registry.workers["sort"]) is First


def test_worker_without_its_type_parameter_is_told_to_write_it(registry):
    class Bare(Worker):
        def work(self, job):
            pass

    class Open(Worker[A], Generic[A]):
        def work(self, job):
            pass

    class Filled(Open):
        pass

    assert "does not say what it works; write class Bare(Worker[YourArgs])" in refused(registry, Bare)
    assert "does not say what it works; write class Filled(Worker[YourArgs])" in refused(registry, Filled)


def test_worker_of_a_quoted_type_is_told_to_take_the_quotes_off(registry):
    class Quoted(Worker["SortArgs"]):
        def work(self, job):
            pass

    assert "define the args first, without quotes" in refused(registry, Quoted)


@pytest.mark.parametrize("args", [MailDict, int])
def test_worker_of_a_type_without_a_kind_is_told_about_handles(registry, args):
    class Kindless(Worker[args]):
        def work(self, job):
            pass

    assert "class Kindless(Worker[...], kind=...)" in refused(registry, Kindless)


def test_worker_whose_handle_is_of_other_args_is_refused(registry):
    class Mixed(Worker[SortArgs], kind=MAIL):
        def work(self, job):
            pass

    assert "is a Worker[SortArgs], but kind=Kind('mail'" in refused(registry, Mixed)


def test_worker_without_work_is_told_to_write_it(registry):
    class Idle(Worker[SortArgs]):
        pass

    assert "has no work method; write: def work(self, job: Job[...]) -> None" in refused(registry, Idle)


@pytest.mark.parametrize("wrong", [lambda self: None, lambda self, job, more: None, lambda self, *, job: None])
def test_work_that_takes_something_else_is_refused(registry, wrong):
    class SortWorker(Worker[SortArgs]):
        work = wrong

    assert "SortWorker.work is called with a job and nothing else, but takes" in refused(registry, SortWorker)


def test_retry_delay_that_takes_something_else_or_must_be_awaited_is_refused(registry):
    class OneArgument(Worker[SortArgs]):
        def work(self, job):
            pass

        def retry_delay(self, attempt):
            return 1.0

    class Awaited(Worker[SortArgs]):
        def work(self, job):
            pass

        async def retry_delay(self, attempt, error):
            return 1.0

    assert "OneArgument.retry_delay is called with an attempt and an error, but takes (attempt)" in refused(registry, OneArgument)
    assert "Awaited.retry_delay: expected a method, got an async def" in refused(registry, Awaited)


def test_work_that_is_no_function_is_refused(registry):
    class SortWorker(Worker[SortArgs]):
        work = 3

    assert "SortWorker has no work method" in refused(registry, SortWorker)


def test_work_that_yields_is_refused(registry):
    class Lazy(Worker[SortArgs]):
        def work(self, job):
            yield 1

    class LazyAsync(Worker[SortArgs]):
        async def work(self, job):
            yield 1

    assert "calling it would run nothing" in refused(registry, Lazy)
    assert "calling it would run nothing" in refused(registry, LazyAsync)


def test_class_that_needs_arguments_is_told_to_be_made_first(registry):
    class Needy(Worker[SortArgs]):
        def __init__(self, smtp):
            pass

        def work(self, job):
            pass

    assert "make it yourself: registry.register(Needy(...))" in refused(registry, Needy)


@pytest.mark.parametrize("thing", [int, 3])
def test_what_is_no_worker_is_refused(registry, thing):
    assert "derive it from Worker[YourArgs]" in refused(registry, thing)


def test_args_without_dataclass_are_refused_when_their_worker_is_registered(registry):
    class PlainArgs(Args, kind="plain"):
        n: int

    class PlainWorker(Worker[PlainArgs]):
        def work(self, job):
            pass

    told = refused(registry, PlainWorker)

    assert "the args of kind 'plain'" in told
    assert "PlainArgs is a plain class, which cannot be read from JSON; write @dataclass above it" in told


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("timout", 3, "timeout"),
        ("time_out", None, "timeout"),
        ("max_attempt", 2, "max_attempts"),
        ("queues", "mails", "queue"),
        ("max_retries", 3, "max_attempts"),
        ("time_limit", 30, "timeout"),
        ("retries", 3, "max_attempts"),
        ("retry_dealy", lambda self, attempt, error: 1.0, "retry_delay"),
    ],
)
def test_a_misspelt_option_of_a_worker_is_refused_with_the_one_that_is_meant(registry, name, value, meant):
    class SortWorker(Worker[SortArgs]):
        def work(self, job):
            pass

    setattr(SortWorker, name, value)

    assert f"SortWorker.{name}: a worker has no such option; did you mean {meant}?" in refused(registry, SortWorker)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tags", ["red"], "a worker has no such option; tags are the args' own: class YourArgs(Args, kind=..., tags=[...])"),
        ("kind", "sort", "registering sets it; name it in the args' class"),
        ("kind", MAIL, "or for args of others in the class line: class X(Worker[...], kind=...)"),
        ("is_async", True, "registering sets it; write async def work"),
    ],
)
def test_what_a_worker_says_in_vain_is_refused_with_where_to_say_it(registry, name, value, said):
    class SortWorker(Worker[SortArgs]):
        def work(self, job):
            pass

    setattr(SortWorker, name, value)

    assert said in refused(registry, SortWorker)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("retries", "takes kind=... and no retries; an option is an attribute: write max_attempts = ... in the class"),
        ("timeout", "write timeout = ... in the class; there are queue, priority, max_attempts, gates, unique, expires, "),
        ("tags", "tags are the args' own"),
    ],
)
def test_an_option_in_the_class_line_of_a_worker_is_refused_with_where_to_say_it(name, said):
    with pytest.raises(RegistryError, match="SortWorker: its class line takes") as caught:
        type(Worker)("SortWorker", (Worker,), {}, **{name: 3})

    assert said in str(caught.value)


class Node(TypedDict):
    children: "list[Node]"


@pytest.mark.parametrize(
    ("field", "of"),
    [
        (threading.Thread, "field 'what' is a Thread"),
        (list[complex], "field 'what.items' is a complex"),
        (dict[str, tuple[int, threading.Event]], "field 'what.values.items' is a Event"),
        (Callable[[], None], "field 'what' is a Callable"),
    ],
)
def test_args_with_a_field_that_can_never_be_json_are_refused(registry, field, of):
    @dataclass
    class OddArgs(Args, kind="odd"):
        node: Node
        what: field

    class OddWorker(Worker[OddArgs]):
        def work(self, job):
            pass

    told = refused(registry, OddWorker)
    assert "the args of kind 'odd': " in told
    assert of in told


def test_args_with_a_field_that_may_be_json_are_taken(registry):
    @dataclass
    class WideArgs(Args, kind="wide"):
        node: Node
        anything: Any
        perhaps: threading.Thread | None
        tree: "list[WideArgs]"

    @registry.register
    class WideWorker(Worker[WideArgs]):
        def work(self, job):
            pass

    assert list(registry.workers) == ["wide"]


def test_attributes_of_ones_own_are_no_misspelt_options(registry):
    @registry.register
    class SortWorker(Worker[SortArgs]):
        timer = 3.0
        queue_url = "https://queue"
        queues = ("a", "b")
        _timout = 3

        def work(self, job):
            pass

    assert list(registry.workers) == ["sort"]
