"""Ask how much a job pays for hooks: calls of the function that an executor calls for each job, and of an enqueue's preparation.

The difference to `plain` is the price. There are no threads here, no loop and no database: on a machine that others share
the price of a hook, some 0.1 us, is nowhere to be seen behind these. `--benchmark-timer=time.process_time` helps there, too.
"""

import sys
from contextlib import suppress
from dataclasses import dataclass

import pytest

from bench.pieces import claimed
from fastq import Args, Hook, Registry, Worker
from fastq.enqueue import calls
from fastq.hooks import current
from fastq.work.codec.codec import decode

JOBS = 20_000


class Empty(Hook):
    def work(self, job, proceed):  # noqa: ARG002 - what it is given
        return proceed()

    async def work_async(self, job, proceed):  # noqa: ARG002 - the same
        return await proceed()


class Around(Hook):
    def around(self, job):  # noqa: ARG002 - the same
        yield


class Enqueueing(Hook):
    def enqueue(self, enqueuing):
        pass


def handle(job, about):  # noqa: ARG001 - the same
    return None


def registries():
    """Make a registry of a sync and of an async worker for each sort of hook."""
    hooks = {"plain": [], "one empty hook": [Empty()], "one around": [Around()], "three empty hooks": [Empty(), Empty(), Empty()]}
    made = {name: Registry(hooks=some) for name, some in hooks.items()}
    made["on_error"], made["on_crash"] = Registry(), Registry()
    made["on_error"].on_error(handle)
    made["on_crash"].on_crash(handle)
    made["current job"] = Registry()
    for number, (name, registry) in enumerate(made.items()):
        add_workers(registry, number, current_one=name == "current job")
    return made


def add_workers(registry, number, *, current_one):
    @dataclass
    class SyncArgs(Args, kind=f"sync-{number}"):
        number: int

    @dataclass
    class AsyncArgs(Args, kind=f"async-{number}"):
        number: int

    @registry.register
    class SyncWorker(Worker[SyncArgs]):
        def work(self, job):
            pass

    @registry.register
    class AsyncWorker(Worker[AsyncArgs]):
        async def work(self, job):
            pass

    for worker in registry.workers.values() if current_one else ():
        worker.called = current.within(worker.work, is_async=worker.is_async)


REGISTRIES = registries()


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Have no job pay for the module of the current job, which this file has imported."""
    monkeypatch.delitem(sys.modules, "fastq.hooks.current")


def jobs_of(registry, form, count):
    kind = next(kind for kind in registry.workers if kind.startswith(form))
    return decode(claimed(kind, [b'{"number":%d}' % number for number in range(count)]), registry.workers)[0]


def run_all(call, jobs):
    """Call as an executor does."""
    for job in jobs:
        call(job)


def await_all(call, jobs):
    """Await as a slot of the loop does, without a loop: nothing here waits."""

    async def slot():
        for job in jobs:
            await call(job)

    with suppress(StopIteration):
        slot().send(None)


@pytest.mark.parametrize("name", REGISTRIES)
@pytest.mark.parametrize("form", ["sync", "async"])
def test_call_with(measured, size, form, name):
    jobs = jobs_of(REGISTRIES[name], form, size(JOBS))
    way = run_all if form == "sync" else await_all

    measured(len(jobs), lambda: way(jobs[0].batch.work, jobs), rounds=50)


@dataclass
class PlainArgs(Args, kind="enqueued"):
    number: int


@pytest.mark.parametrize("hooks", [(), (Enqueueing(),)], ids=["plain", "one empty hook"])
@pytest.mark.parametrize("call", ["one", "many"])
def test_prepare_an_enqueue_with(measured, size, call, hooks):
    items = [PlainArgs(number) for number in range(size(JOBS))]

    def one():
        for item in items:
            calls.one(item, None, {}, 1_000_000, hooks)

    def many():
        calls.many(items, None, {}, 1_000_000, hooks)

    measured(len(items), {"one": one, "many": many}[call])
