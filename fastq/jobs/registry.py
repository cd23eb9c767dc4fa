"""Collect the declarations of an application: the `Registry` that `fastq run app:registry` is given.

A registry is filled by the thread that imports the application, in each process that does so: `fastq run`, which becomes the
supervisor; the fork server, whose children inherit it; `fastq enqueue --app`; programs of yours. After that it is only read, by
every thread. `declare` takes a thing of any sort (declaration.py), refuses a second one of the same name, and checks it: a
mistake is found at import, not when a process first needs the thing. The other methods make a declaration from the user's words.

A registry does not scan packages and imports nothing: a worker is known when its module was imported. It deliberately knows
nothing of a sort beyond `Declaration`, but for the three that have a method and a mapping of their own here.

The hooks around a worker are composed when it is registered, and anew for all workers when a handler comes later (hooks/).
"""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from fastq.args.hook import WORKING, check_hooks
from fastq.errors import FastqError, OptionError, RegistryError
from fastq.hooks.around import composed
from fastq.hooks.concealing import concealing
from fastq.hooks.function import WorkerOptions, worker_of
from fastq.hooks.handlers import CrashHandler, ErrorHandler
from fastq.hooks.many import composed_many
from fastq.joblogs import keeping
from fastq.jobs.declaration import Declaration, SingletonDeclaration, singleton_name
from fastq.jobs.periodic import PeriodicJob, PeriodicOptions
from fastq.jobs.worker import Worker, WorkerDeclaration
from fastq.jobs.worker_faults import place, takes_many

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from fastq.args.hook import Hook
    from fastq.args.kinds import Args, Kind
    from fastq.hooks.handlers import Crash
    from fastq.jobs.job import Job
    from fastq.jobs.outcome import Verdict
    from fastq.jobs.schedule import Schedule
    from fastq.leases.singleton import Singleton

A = TypeVar("A")
D = TypeVar("D", bound=Declaration)
W = TypeVar("W", bound="Worker[Any]")
S = TypeVar("S", bound="Callable[[Singleton], object]")
F = TypeVar("F", bound="Callable[[Job[Any]], object] | Callable[[Sequence[Job[Any]]], object]")
E = TypeVar("E", bound="Callable[[Job[Any], BaseException], Verdict | Awaitable[Verdict | None] | None]")
C = TypeVar("C", bound="Callable[[Job[Any], Crash], Verdict | Awaitable[Verdict | None] | None]")


class Registry:
    """The workers of an application by kind; made once, at module level, and named on the command line: `fastq run app:registry`.

    `register(worker)` takes a worker, `worker` a function as one, `periodic(name, schedule, args)` a job for each tick of a
    schedule, `singleton(name)` a function that runs on one process at a time. `on_error` and `on_crash` take functions that are
    asked when jobs fail and when processes die. With `Registry(logs=True)` what jobs log and print is kept, but for workers that
    say otherwise. `workers` (by kind), `periodics` and `singletons` (by name) are for reading.
    """

    def __init__(self, *, hooks: Sequence[Hook] = (), logs: bool = False) -> None:
        try:
            self._hooks = check_hooks(hooks, called=WORKING)
        except OptionError as error:
            raise RegistryError(f"Registry: {error}") from error
        if not isinstance(logs, bool):
            raise RegistryError(f"Registry: logs: expected True or False, got {logs!r}")
        self._logs = logs
        self._errors, self._crashes = ErrorHandler(), CrashHandler()
        self._declared: dict[type[Declaration], dict[str, Declaration]] = {}
        self._things: dict[type[Declaration], dict[str, Any]] = {}
        self.workers: Mapping[str, Worker[Any]] = self._mapping(WorkerDeclaration)
        self.periodics: Mapping[str, PeriodicJob] = self._mapping(PeriodicJob)
        self.singletons: Mapping[str, Callable[[Singleton], object]] = self._mapping(SingletonDeclaration)

    @overload
    def register(self, worker: type[W]) -> type[W]: ...
    @overload
    def register(self, worker: W) -> W: ...
    def register(self, worker: type[W] | W) -> type[W] | W:
        """Add a worker: as a decorator of its class, or called with an instance that you made."""
        self.declare(WorkerDeclaration(worker, self._composed))
        return worker

    @overload
    def worker(self, function: F, /) -> F: ...
    @overload
    def worker(self, /, **options: Unpack[WorkerOptions]) -> Callable[[F], F]: ...
    def worker(self, function: F | None = None, /, **options: Unpack[WorkerOptions]) -> F | Callable[[F], F]:
        """Add a function as a worker, as a decorator of `def mail(job: Job[MailArgs])` or of an `async def`.

        Over `def mail(jobs: Sequence[Job[MailArgs]])`, or an `async def`, it makes a batch worker.
        The options are those of a Worker class: `@registry.worker(queue="mail", timeout=10.0)`; the function stays as it is.
        """

        def declare(function: F) -> F:
            self.register(worker_of(function, options))
            return function

        return declare if function is None else declare(function)

    def on_error(self, handler: E) -> E:
        """Have a function asked when an attempt of any worker has failed by an exception: as a decorator of it.

        It gets the job and the exception. It returns None (the job is retried or discarded as ever), or decides: `Snooze`,
        `Cancel`, `Discard`, `Retry`, `RateLimited`. One `async def` may stand beside it, for workers that are `async def`.
        """
        self._errors.add(handler)
        self._compose_anew()
        return handler

    def on_crash(self, handler: C) -> C:
        """Have a function asked before `work` where the attempt before has ended with the death of its process.

        It gets the job and a `Crash`, in the process that has the job now. It returns None (the job is worked), or decides as
        `on_error` does.
        """
        self._crashes.add(handler)
        self._compose_anew()
        return handler

    @overload
    def periodic(self, name: str, schedule: Schedule, args: Args, **options: Unpack[PeriodicOptions]) -> None: ...
    @overload
    def periodic(self, name: str, schedule: Schedule, args: A, *, kind: Kind[A], **options: Unpack[PeriodicOptions]) -> None: ...
    def periodic(
        self, name: str, schedule: Schedule, args: Any, *, kind: Kind[Any] | None = None, **options: Unpack[PeriodicOptions]
    ) -> None:
        """Have a job enqueued at each tick of a schedule, once in the whole cluster, for as long as a process declares it.

        `missed` says which ticks are made up for if no leader was running at their time: "once" (the last of them), "skip"
        (none), or `Backfill(10)`. `run_on_start` enqueues one when the definition is new or has changed. The others are those of
        `enqueue`.
        """
        caller = sys._getframe(1)  # noqa: SLF001 - where the definition stands, for the message that there are two
        place = f"{caller.f_globals.get('__name__')}, line {caller.f_lineno}"
        self.declare(PeriodicJob(name, schedule, args, kind, options, place))

    def singleton(self, name: str) -> Callable[[S], S]:
        """Have a function run on one process of the cluster at a time, for as long as that lives: as a decorator of it.

        It gets a Singleton, may be `async def`, and returns when that says `stopping`; see docs/singletons.md.
        """
        checked = singleton_name(name)

        def declare(function: S) -> S:
            self.declare(SingletonDeclaration(checked, function))
            return function

        return declare

    def declare(self, declaration: Declaration) -> None:
        """Add a thing of any sort, once it is checked."""
        known, things = self._of(type(declaration)), self._things[type(declaration)]
        names = (declaration.name, *declaration.also)
        for name in sorted(things.keys() & names):
            other = next(one for one in known.values() if name in (one.name, *one.also))
            raise RegistryError(declaration.twice(other, name))
        declaration.check()
        known[declaration.name] = declaration
        things.update(dict.fromkeys(names, declaration.thing))

    def declared(self, sort: type[D]) -> Mapping[str, D]:
        """Return the declarations of one sort by name."""
        return MappingProxyType(cast("dict[str, D]", self._declared.get(sort, {})))

    def sorts(self) -> list[type[Declaration]]:
        """Return the sorts of which there is a declaration: ours first, others in the order in which they came."""
        return [sort for sort, declared in self._declared.items() if declared]

    def _composed(self, worker: Worker[Any]) -> Callable[[Any], Any]:
        """Return a worker's `work` with all that stands around it: its log, the handlers, our hooks, its kind's, its own."""
        try:
            own = check_hooks(worker.hooks, called=WORKING)
        except FastqError as error:
            raise RegistryError(f"{place(type(worker))}: {error}") from error
        handlers = [handler for handler in (self._errors, self._crashes) if handler]
        for handler in handlers:
            handler.check(worker)
        many = takes_many(worker, Worker)
        compose = composed_many if many else composed
        work = compose(worker, [*handlers, *self._hooks, *worker.kind.hooks, *own, *concealing(worker.kind)])
        keeps = self._logs and not many if worker.logs is None else worker.logs
        return keeping.within(work, is_async=worker.is_async) if keeps else work

    def _compose_anew(self) -> None:
        for worker in self.workers.values():
            worker.called = self._composed(worker)

    def _of(self, sort: type[Declaration]) -> dict[str, Declaration]:
        self._things.setdefault(sort, {})
        return self._declared.setdefault(sort, {})

    def _mapping(self, sort: type[Declaration]) -> Mapping[str, Any]:
        """Return a view of the things of one sort, such as the workers."""
        self._of(sort)
        return MappingProxyType(self._things[sort])

    def __repr__(self) -> str:
        """List the kinds."""
        return f"Registry({', '.join(sorted(self.workers))})"
