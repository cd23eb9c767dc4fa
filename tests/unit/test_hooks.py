"""Hooks around work: in which order, for which workers, what they may do with an outcome, and which mistakes are refused."""

import functools
import itertools
from dataclasses import dataclass

import pytest

from fastq import Args, Cancel, Client, Hook, Job, Kind, Registry, Snooze, Worker
from fastq.board.board import Board
from fastq.errors import OptionError, RegistryError
from fastq.hooks.asking import asked
from fastq.jobs.outcome import Failed, Output
from fastq.work.codec.codec import decode
from fastq.work.modes import modes_for
from fastq.work.shared.lane import Outbox
from tests.codec.claims import claimed
from tests.helpers import wait_for

PLACES = ("registry", "kind", "worker")
numbers = itertools.count()


class Told(Hook):
    """Tells its name before and after the work, in the form that it is made for."""

    def __init__(self, name, told):
        self.name, self.told = name, told


class Both(Told):
    def work(self, job, proceed):
        self.told.append(f"{self.name}>")
        try:
            return proceed()
        finally:
            self.told.append(f"<{self.name}")

    async def work_async(self, job, proceed):
        self.told.append(f"{self.name}>")
        try:
            return await proceed()
        finally:
            self.told.append(f"<{self.name}")


class Around(Told):
    def around(self, job):
        self.told.append(f"{self.name}>")
        try:
            yield
        finally:
            self.told.append(f"<{self.name}")


class Replacing(Hook):
    """Puts another outcome in the place of the work's."""

    def __init__(self, decide):
        self.decide = decide

    def work(self, job, proceed):
        return self.decide(proceed())

    async def work_async(self, job, proceed):
        return self.decide(await proceed())


def registry_of(work, *, is_async, registry=(), kind=(), worker=()):
    """Make a registry with one worker, whose work calls a function, and with hooks in three places."""
    number = next(numbers)

    @dataclass
    class SomeArgs(Args, kind=f"some-{number}", hooks=kind):
        pass

    class Sync(Worker[SomeArgs]):
        hooks = worker

        def work(self, job):
            return work(job)

    class Async(Worker[SomeArgs]):
        hooks = worker

        async def work(self, job):
            return work(job)

    made = Registry(hooks=registry)
    made.register(Async if is_async else Sync)
    return made


def settled(registry):
    """Execute a job of the registry's only kind, in the worker's own mode, and return its outcome."""
    [(kind, worker)] = registry.workers.items()
    outbox = Outbox()
    [mode] = modes_for([worker], outbox)
    lane = mode.lane(Board.make([1], 1, 1).lane(0, 0, 0), 1, lambda: None)
    mode.start()
    lane.put(decode(claimed([(kind, b"{}")]), registry.workers)[0], 0)
    wait_for(lambda: outbox.jobs, 5.0, "the end of the job")
    mode.stop()
    mode.finish(0.0)
    return outbox.jobs[0].outcome


def fail(job):
    raise ValueError("no such user")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request):
    return request.param


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", [Both, Around])
@pytest.mark.parametrize("work", [lambda job: 7, fail], ids=["returns", "raises"])
def test_a_hook_stands_around_the_work_of_each_form_wherever_it_is_given(is_async, place, form, work):
    told = []

    outcome = settled(
        registry_of(lambda job: (told.append("work"), work(job))[1], is_async=is_async, **{place: [form("h", told)]})
    )

    assert told == ["h>", "work", "<h"]
    assert type(outcome) is (Failed if work is fail else Output)


def test_hooks_stand_in_order_the_registrys_outside_and_the_workers_inside(is_async):
    told = []
    forms = itertools.cycle([Both, Around])
    hooks = {place: [next(forms)(f"{place[0]}{n}", told) for n in (1, 2)] for place in PLACES}

    settled(registry_of(lambda job: told.append("work"), is_async=is_async, **hooks))

    assert told == ["r1>", "r2>", "k1>", "k2>", "w1>", "w2>", "work", "<w2", "<w1", "<k2", "<k1", "<r2", "<r1"]


def test_a_hook_that_is_given_in_two_places_is_called_once(is_async):
    told = []
    hook = Around("h", told)

    settled(registry_of(lambda job: None, is_async=is_async, registry=[hook], worker=[hook]))

    assert told == ["h>", "<h"]


@pytest.mark.parametrize(
    ("decide", "outcome"),
    [
        (lambda value: Snooze(60), Snooze(60)),
        (lambda value: Cancel("no"), Cancel("no")),
        (lambda value: value + 1, Output("8")),
        (lambda value: None, None),
    ],
)
def test_a_hook_may_put_another_outcome_in_the_place_of_the_works(is_async, decide, outcome):
    assert settled(registry_of(lambda job: 7, is_async=is_async, worker=[Replacing(decide)])) == outcome


def test_a_hook_may_raise_and_the_attempt_fails_then(is_async):
    def refuse(value):
        raise LookupError("not today")

    outcome = settled(registry_of(lambda job: 7, is_async=is_async, registry=[Replacing(refuse)]))

    assert "LookupError: not today" in outcome.error
    assert "fastq/work" not in outcome.error


def test_an_exception_passes_through_a_hook_that_only_opens_and_closes(is_async):
    class Swallowing(Hook):
        def around(self, job):
            try:
                yield
            except ValueError:
                return

    outcome = settled(registry_of(fail, is_async=is_async, worker=[Swallowing()]))

    assert "ValueError: no such user" in outcome.error


def test_an_exception_that_such_a_hook_raises_counts(is_async):
    class Translating(Hook):
        def around(self, job):
            try:
                yield
            except ValueError as error:
                raise LookupError("translated") from error

    outcome = settled(registry_of(fail, is_async=is_async, worker=[Translating()]))

    assert '"error":"LookupError: translated"' in outcome.error


@pytest.mark.parametrize(
    ("is_async", "raised"),  # of a StopIteration in a coroutine Python itself makes another exception
    [(False, StopIteration(3)), (False, Snooze(5)), (True, Snooze(5)), (False, GeneratorExit()), (True, GeneratorExit())],
)
def test_any_exception_comes_out_as_it_went_in(is_async, raised):
    def work(job):
        raise raised

    told = []
    outcome = settled(registry_of(work, is_async=is_async, worker=[Around("h", told)]))

    assert told == ["h>", "<h"]
    assert outcome == raised if isinstance(raised, Snooze) else type(raised).__name__ in outcome.error


@pytest.mark.parametrize(
    ("steps", "fault"), [(lambda: iter(()), "has ended without a yield"), (lambda: iter((None, None)), "has a second yield")]
)
def test_a_hook_that_does_not_yield_once_fails_the_attempt_and_says_so(is_async, steps, fault):
    class Odd(Hook):
        def around(self, job):
            yield from steps()

    outcome = settled(registry_of(lambda job: None, is_async=is_async, worker=[Odd()]))

    assert fault in outcome.error


def test_a_worker_without_hooks_is_called_as_it_is(is_async):
    registry = registry_of(lambda job: None, is_async=is_async)
    [worker] = registry.workers.values()

    assert worker.called == worker.work


class OnlySync(Hook):
    def work(self, job, proceed):
        return proceed()


class OnlyAsync(Hook):
    async def work_async(self, job, proceed):
        return await proceed()


@pytest.mark.parametrize("place", PLACES)
def test_a_hook_that_has_the_other_form_alone_is_refused_with_the_remedy(is_async, place):
    with pytest.raises(RegistryError, match=r"alone; write .*def work.* in the hook too, or for both forms def around"):
        registry_of(fail, is_async=is_async, **{place: [OnlySync() if is_async else OnlyAsync()]})


class Misspelt(Hook):
    def works(self, job, proceed): ...


class Foreign(Hook):
    def before(self, job): ...


class Empty(Hook):
    pass


class AsyncWork(Hook):
    async def work(self, job, proceed): ...


class SyncAsync(Hook):
    def work_async(self, job, proceed): ...


class NoYield(Hook):
    def around(self, job):
        return None


class Decorated(Hook):
    @functools.wraps(Around.around)
    def around(self, job): ...


class TakesLess(Hook):
    def work(self, job): ...


class Mixed(Hook):
    def work(self, job, proceed): ...

    def around(self, job):
        yield


WRONG = {
    "no list": (OnlySync(), r"hooks=.*: expected a list of hooks, such as hooks=\[Timing\(\)\]"),
    "no hook": ([print], "expected an object of a class derived from Hook, got <built-in function print>"),
    "a class": ([OnlySync], r"expected an object, got the class OnlySync itself: write OnlySync\(\)"),
    "a slip": ([Misspelt()], r"a method works, which is never called; did you mean def work\(self, job, proceed\)\?"),
    "another's word": ([Foreign()], "a method before, which is never called; did you mean def around"),
    "nothing": ([Empty()], "Empty has nothing that is called here; write def work"),
    "the wrong form": ([AsyncWork()], r"AsyncWork.work: expected def work\(self, job, proceed\)"),
    "the wrong form too": ([SyncAsync()], r"expected async def work_async\(self, job, proceed\)"),
    "no yield": ([NoYield()], "expected def around.* with one yield in it"),
    "a decorator": ([Decorated()], "around is decorated; leave the decorator away"),
    "too few arguments": ([TakesLess()], r"TakesLess.work takes \(job\)"),
    "both forms": ([Mixed()], "has around, and work or work_async too"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("place", PLACES)
def test_a_mistake_in_a_hook_is_refused_where_it_is_given(name, place):
    hooks, fault = WRONG[name]

    with pytest.raises((RegistryError, OptionError), match=fault):
        registry_of(fail, is_async=False, **{place: hooks})


def test_a_hook_that_is_only_for_the_other_side_is_refused():
    class Enqueueing(Hook):
        def enqueue(self, enqueuing): ...

    with pytest.raises(RegistryError, match="nothing that is called here; write def work"):
        Registry(hooks=[Enqueueing()])
    with pytest.raises(OptionError, match="nothing that is called here; write def enqueue"):
        Client("postgresql://nowhere", hooks=[OnlySync()])
    assert Kind("both", dict, hooks=[Enqueueing(), OnlySync()]).hooks


def test_a_job_made_by_hand_passes_no_hook():
    told = []
    registry = registry_of(lambda job: told.append("work"), is_async=False, registry=[Around("h", told)])
    [worker] = registry.workers.values()

    worker.work(Job.of(None))

    assert told == ["work"]


@pytest.mark.parametrize(
    ("of_kind", "options", "queue"),
    [(None, {}, "default"), ("mails", {}, "mails"), ("mails", {"queue": "slow"}, "slow"), ("mails", {"tags": ["a"]}, "mails")],
)
def test_a_hook_sees_the_queue_that_a_job_is_enqueued_to(of_kind, options, queue):
    seen = []

    class Seeing(Hook):
        def enqueue(self, enqueuing):
            seen.append(enqueuing.queue)

    asked([Seeing()], Kind("mail", dict, queue=of_kind), {}, options)

    assert seen == [queue]
