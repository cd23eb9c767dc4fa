"""Know which class works a kind: `Worker`, and the `Registry` of them that `fastq run app:registry` is given.

A registry is filled while the application is imported (in the fork server, once per host) and only read afterwards, by
every process and thread. One instance of each worker serves all executor threads of a process: the attributes of `self`
are shared by jobs that run at the same time.

Everything about a worker that can be wrong is found when it is registered, not when its first job comes (worker_faults.py): no
type parameter, no `work`, a `work` that takes something else, a bad option, a second worker for the same kind.

An option belongs to the kind. The args class may state it. If it does not, the worker's value is given to the kind, so that a
`Client` in the same program enqueues with it. If both state it and differ, the worker is refused.
A registry does not scan packages and imports nothing: a worker is known when its module was imported.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, TypeVar, Unpack, get_args, get_origin, overload

from fastq.args.faults import fault_in_fields
from fastq.args.kinds import Args, Kind, kind_of_type, unfinished
from fastq.errors import FastqError, RegistryError
from fastq.jobs.job import Job
from fastq.jobs.periodic import PeriodicJob, PeriodicOptions
from fastq.jobs.retry import default_delay
from fastq.jobs.schedule import Schedule
from fastq.jobs.worker_faults import check_singleton, check_worker, name_of, place, settle_options, unknown_argument

if TYPE_CHECKING:
    from fastq.leases.singleton import Singleton

A = TypeVar("A")
W = TypeVar("W", bound="Worker[Any]")
S = TypeVar("S", bound="Callable[[Singleton], object]")

SINGLETON_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/\-]{0,126}")
"""No blanks: the name is part of a notification and of a line to a process."""

DEFAULT_TIMEOUT = 60.0  # s; most jobs take less than one, and a thread that hangs must not keep its slot for long


class Worker(Generic[A]):
    """Derive from `Worker[SortArgs]`, write `work`, register it. For a TypedDict: `Worker[MailDict], kind=MAIL`.

    May be set in the class, for all jobs of the kind: `queue`, `priority`, `max_attempts`, `timeout`, `archive`. May be written:
    `retry_delay`. Once it is registered, `kind` and `is_async` tell what it works and how.
    """

    queue: str | None = None  # of jobs that are enqueued without one; None: the kind's, or "default"
    priority: int | None = None  # 1 (first) to 4 (last); None: the kind's, or 1
    max_attempts: int | None = None  # after which a failing job is discarded; None: the kind's, or 25
    timeout: float | None = DEFAULT_TIMEOUT  # s from the start of `work`; None: no limit
    archive: bool = True  # False: completed jobs of this kind leave no row behind, nor their outputs

    kind: Kind[A]  # set when registered
    is_async: bool = False  # set when registered: `async def work` runs on the event loop, not on an executor thread
    _handle: ClassVar[Kind[Any] | None] = None

    def __init_subclass__(cls, *, kind: Kind[A] | None = None, **others: Never) -> None:
        """Note the handle of a kind that has no args class of its own."""
        super().__init_subclass__()
        if others:
            raise RegistryError(f"{place(cls)}: {unknown_argument(min(others))}")
        if kind is not None:
            cls._handle = kind

    def work(self, job: Job[A]) -> object:
        """Do the job. Return anything (done); return or raise `Snooze(seconds)`, `Cancel(reason)`; raise to fail the attempt."""
        raise NotImplementedError

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002 - for a worker's own method
        """Say how many seconds to wait after this attempt failed with this error, which `work` has raised.

        Not asked where `work` has raised nothing: stored args that do not fit, a job that was given up, an outcome that could not
        be stored. Those wait the default.
        """
        return default_delay(attempt)


class Registry:
    """The workers of an application by kind; made once, at module level, and named on the command line: `fastq run app:registry`.

    `register(worker)` takes a worker, `periodic(name, schedule, args)` a job for each tick of a schedule, `singleton(name)` a
    function that runs on one process at a time. `workers` (by kind), `periodics` and `singletons` (by name) are for reading.
    """

    def __init__(self) -> None:
        self._workers: dict[str, Worker[Any]] = {}
        self.workers: Mapping[str, Worker[Any]] = MappingProxyType(self._workers)
        self._singletons: dict[str, Callable[[Singleton], object]] = {}
        self.singletons: Mapping[str, Callable[[Singleton], object]] = MappingProxyType(self._singletons)
        self._periodics: dict[str, PeriodicJob] = {}
        self.periodics: Mapping[str, PeriodicJob] = MappingProxyType(self._periodics)

    @overload
    def register(self, worker: type[W]) -> type[W]: ...
    @overload
    def register(self, worker: W) -> W: ...
    def register(self, worker: type[W] | W) -> type[W] | W:
        """Add a worker: as a decorator of its class, or called with an instance that you made."""
        made = _make(worker) if isinstance(worker, type) else worker
        if not isinstance(made, Worker):
            raise RegistryError(f"expected a Worker, got {made!r}; derive it from Worker[YourArgs]")
        cls = type(made)
        kind = _kind_of_worker(cls)
        known = self._workers.get(kind.name)
        if known is not None:
            raise RegistryError(
                f"kind '{kind.name}' has two workers: {place(type(known))} and {place(cls)}; "
                f"remove one, or give its args a kind of their own"
            )
        if reason := unfinished(kind.type) or fault_in_fields(kind.type):
            raise RegistryError(f"{place(cls)}: the args of kind '{kind.name}': {reason}")
        check_worker(made, Worker)
        settle_options(made, kind)
        made.kind = kind
        made.is_async = inspect.iscoroutinefunction(made.work)
        self._workers[kind.name] = made
        return worker

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
        made = PeriodicJob(name, schedule, args, kind, options, f"{caller.f_globals.get('__name__')}, line {caller.f_lineno}")
        known = self._periodics.get(made.name)
        if known is not None:
            raise RegistryError(
                f"periodic job '{made.name}' is defined twice: {known.place} and {made.place}; rename or remove one"
            )
        self._periodics[made.name] = made

    def singleton(self, name: str) -> Callable[[S], S]:
        """Have a function run on one process of the cluster at a time, for as long as that lives: as a decorator of it.

        It gets a Singleton, may be `async def`, and returns when that says `stopping`; see docs/singletons.md.
        """
        given: Any = name
        if not isinstance(given, str) or not SINGLETON_NAME.fullmatch(given):
            raise RegistryError(f'singleton: expected a name like "projection:orders", got {name!r}')

        def declare(function: S) -> S:
            known = self._singletons.get(name)
            if known is not None:
                raise RegistryError(
                    f"singleton '{name}' is defined twice: {place(known)} and {place(function)}; rename or remove one"
                )
            check_singleton(name, function)
            self._singletons[name] = function
            return function

        return declare

    def __repr__(self) -> str:
        """List the kinds."""
        return f"Registry({', '.join(sorted(self._workers))})"


def _make(cls: type[W]) -> W:
    if not issubclass(cls, Worker):
        raise RegistryError(f"{place(cls)} is no Worker; derive it from Worker[YourArgs]")
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise RegistryError(
            f"{place(cls)} cannot be made without arguments ({error}); make it yourself: registry.register({cls.__name__}(...))"
        ) from error
    return cls()


def _kind_of_worker(cls: type[Worker[Any]]) -> Kind[Any]:
    """Find the kind: by the handle if there is one, else by the type parameter."""
    args_type = _type_parameter(cls)
    handle = cls._handle
    if handle is not None:
        if args_type is not None and args_type is not handle.type:
            raise RegistryError(
                f"{place(cls)} is a Worker[{name_of(args_type)}], but kind={handle!r} has args of type "
                f"{name_of(handle.type)}; make them the same"
            )
        return handle
    if args_type is None:
        raise RegistryError(f"{place(cls)} does not say what it works; write class {cls.__name__}(Worker[YourArgs])")
    if not isinstance(args_type, type):
        raise RegistryError(f"{place(cls)}: Worker[{args_type!r}] is no class; define the args first, without quotes")
    try:
        return kind_of_type(args_type)
    except FastqError as error:
        raise RegistryError(f"{place(cls)}: {error}; or class {cls.__name__}(Worker[...], kind=...)") from error


def _type_parameter(cls: type[Worker[Any]]) -> Any:
    """Return X of the nearest `Worker[X]` (or a generic subclass of it) among the bases; None if there is none."""
    for base in cls.__mro__:
        for written in base.__dict__.get("__orig_bases__", ()):
            origin, parameters = get_origin(written), get_args(written)
            if isinstance(origin, type) and issubclass(origin, Worker) and not isinstance(parameters[0], TypeVar):
                return parameters[0]
    return None
