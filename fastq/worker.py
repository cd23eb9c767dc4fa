"""Know which class works a kind: `Worker`, and the `Registry` of them that `fastq run app:registry` is given.

A registry is filled while the application is imported (in the fork server, once per host) and only read afterwards, by
every process and thread. One instance of each worker serves all executor threads of a process: what it keeps on `self`
is shared by jobs that run at the same time.

Everything about a worker that can be wrong is found when it is registered, not when its first job comes: no type
parameter, no `work`, a `work` that takes something else, a bad option, a second worker for the same kind.

An option belongs to the kind. Where the args class states it, that holds; where it does not, the worker's value is
given to the kind, so that a `Client` in the same program enqueues with it. Two that differ are refused.
A registry does not scan packages and imports nothing: a worker is known when its module was imported.
"""

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack, get_args, get_origin, overload

from fastq.args import Args, Kind, check_max_attempts, check_priority, check_queue, kind_of_type, unfinished
from fastq.errors import FastqError, RegistryError
from fastq.job import Job
from fastq.periodic import PeriodicJob, PeriodicOptions
from fastq.retry import default_delay
from fastq.schedule import Schedule

if TYPE_CHECKING:
    from fastq.singleton import Singleton

A = TypeVar("A")
W = TypeVar("W", bound="Worker[Any]")
S = TypeVar("S", bound="Callable[[Singleton], object]")

SINGLETON_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/\-]{0,126}")
"""No blanks: the name is part of a notification and of a line to a process."""

DEFAULT_TIMEOUT = 60.0  # s; most jobs take less than one, and a thread that hangs must not keep its slot for long

ATTRIBUTES, METHODS = ("queue", "priority", "max_attempts", "timeout", "archive"), ("retry_delay",)
"""What a worker may state, and may write besides `work`, which is missed where it is misspelt."""

FOREIGN = {"max_retries": "max_attempts", "time_limit": "timeout", "soft_time_limit": "timeout"}
"""What Celery and Dramatiq call them: who comes from there and writes one of these means ours."""

ALIKE = 0.8
"""How alike a name and a slip of it are: `timout`, `time_out`, `attempts`; `queue_url` and `timer` are not."""


class Worker(Generic[A]):
    """Derive from `Worker[SortArgs]`, write `work`, register it. For a TypedDict: `Worker[MailDict], kind=MAIL`.

    May be set in the class, for all jobs of the kind: `queue`, `priority`, `max_attempts`, `timeout`, `archive`. May be written:
    `retry_delay`. Once it is registered, `kind` and `is_async` tell what it works and how.
    """

    queue: str | None = None  # what jobs are enqueued to that name none; None: the kind's, or "default"
    priority: int | None = None  # 1 (first) to 4 (last); None: the kind's, or 1
    max_attempts: int | None = None  # after which a failing job is discarded; None: the kind's, or 25
    timeout: float | None = DEFAULT_TIMEOUT  # s from the start of `work`; None: no limit
    archive: bool = True  # False: completed jobs of this kind leave no row behind, nor what they returned

    kind: Kind[A]  # set when registered
    is_async: bool = False  # set when registered: `async def work` runs on the event loop, not on an executor thread
    _handle: ClassVar[Kind[Any] | None] = None

    def __init_subclass__(cls, *, kind: Kind[A] | None = None) -> None:
        """Note the handle of a kind whose args have no class of their own."""
        super().__init_subclass__()
        if kind is not None:
            cls._handle = kind

    def work(self, job: Job[A]) -> object:
        """Do the job. Return anything (done), `Snooze(seconds)` or `Cancel(reason)`; raise to fail the attempt."""
        raise NotImplementedError

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002 - for those who override
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
        """Add a worker: as a decorator of its class, or called with an instance that was given what it needs."""
        made = _make(worker) if isinstance(worker, type) else worker
        if not isinstance(made, Worker):
            raise RegistryError(f"expected a Worker, got {made!r}; derive it from Worker[YourArgs]")
        cls = type(made)
        kind = _kind_of_worker(cls)
        known = self._workers.get(kind.name)
        if known is not None:
            raise RegistryError(
                f"kind '{kind.name}' has two workers: {_place(type(known))} and {_place(cls)}; "
                f"remove one, or give its args a kind of their own"
            )
        if reason := unfinished(kind.type):
            raise RegistryError(f"{_place(cls)}: the args of kind '{kind.name}': {reason}")
        _check_work(made)
        _check_retry_delay(made)
        _check_attributes(cls)
        _settle_options(made, kind)
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

        `missed` says what becomes of ticks that nobody was there for: "once" (the last of them), "skip", or `Backfill(10)`;
        `run_on_start` enqueues one when the definition is new or has changed. The others are those of `enqueue`.
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
                    f"singleton '{name}' is defined twice: {_place(known)} and {_place(function)}; rename or remove one"
                )
            _check_singleton(name, function)
            self._singletons[name] = function
            return function

        return declare

    def __repr__(self) -> str:
        """List the kinds."""
        return f"Registry({', '.join(sorted(self._workers))})"


def _make(cls: type[W]) -> W:
    if not issubclass(cls, Worker):
        raise RegistryError(f"{_place(cls)} is no Worker; derive it from Worker[YourArgs]")
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise RegistryError(
            f"{_place(cls)} cannot be made without arguments ({error}); make it yourself: registry.register({cls.__name__}(...))"
        ) from error
    return cls()


def _kind_of_worker(cls: type[Worker[Any]]) -> Kind[Any]:
    """Find the kind: by the handle if there is one, else by the type parameter."""
    args_type = _type_parameter(cls)
    handle = cls._handle
    if handle is not None:
        if args_type is not None and args_type is not handle.type:
            raise RegistryError(
                f"{_place(cls)} is a Worker[{_name(args_type)}], but kind={handle!r} has args of type "
                f"{_name(handle.type)}; make them the same"
            )
        return handle
    if args_type is None:
        raise RegistryError(f"{_place(cls)} does not say what it works; write class {cls.__name__}(Worker[YourArgs])")
    if not isinstance(args_type, type):
        raise RegistryError(f"{_place(cls)}: Worker[{args_type!r}] is no class; define the args first, without quotes")
    try:
        return kind_of_type(args_type)
    except FastqError as error:
        raise RegistryError(f"{_place(cls)}: {error}; or class {cls.__name__}(Worker[...], kind=...)") from error


def _type_parameter(cls: type[Worker[Any]]) -> Any:
    """Return X of the nearest `Worker[X]` (or a generic subclass of it) among the bases; None if there is none."""
    for base in cls.__mro__:
        for written in base.__dict__.get("__orig_bases__", ()):
            origin, parameters = get_origin(written), get_args(written)
            if isinstance(origin, type) and issubclass(origin, Worker) and not isinstance(parameters[0], TypeVar):
                return parameters[0]
    return None


def _check_work(worker: Worker[Any]) -> None:
    """Refuse a `work` that could not be called, or whose body would not run when it is."""
    cls = type(worker)
    if cls.work is Worker.work or not callable(worker.work):
        raise RegistryError(f"{_place(cls)} has no work method; write: def work(self, job: Job[...]) -> None")
    _check_call(worker, "work", "a job and nothing else", "def work(self, job: Job[...])", None)
    if inspect.isgeneratorfunction(worker.work) or inspect.isasyncgenfunction(worker.work):
        raise RegistryError(f"{_place(cls)}.work has a yield in it, so calling it would run nothing; return instead")


def _check_retry_delay(worker: Worker[Any]) -> None:
    """Refuse a `retry_delay` that would give no number: what it is asked about comes only when a job has failed."""
    cls, wanted = type(worker), "def retry_delay(self, attempt: int, error: BaseException) -> float"
    given: Any = worker.retry_delay
    if not callable(given) or inspect.iscoroutinefunction(given):
        got = "an async def" if callable(given) else repr(given)
        raise RegistryError(f"{_place(cls)}.retry_delay: expected a method, got {got}; write: {wanted}")
    _check_call(worker, "retry_delay", "an attempt and an error", wanted, 1, None)


def _check_call(worker: Worker[Any], name: str, what: str, wanted: str, *given: object) -> None:
    """Refuse a method that cannot be called with what it is given."""
    signature = inspect.signature(getattr(worker, name))
    try:
        signature.bind(*given)
    except TypeError as error:
        raise RegistryError(
            f"{_place(type(worker))}.{name} is called with {what}, but takes {signature} ({error}); write: {wanted}"
        ) from error


def _check_attributes(cls: type[Worker[Any]]) -> None:
    """Refuse an attribute that is an option but for a slip: it would have no effect, and no type checker sees it."""
    for name in [name for name in dir(cls) if not name.startswith("_") and not hasattr(Worker, name)]:
        value = inspect.getattr_static(cls, name)
        known = ATTRIBUTES if isinstance(value, int | float | str | None) else METHODS if inspect.isfunction(value) else ()
        near = difflib.get_close_matches(name, known, n=1, cutoff=ALIKE)
        if meant := near[0] if near else FOREIGN.get(name):
            raise RegistryError(
                f"{_place(cls)}.{name}: a worker has no such option; did you mean {meant}? One of your own begins with '_', "
                "or has a name less like it"
            )


def _check_singleton(name: str, function: object) -> None:
    """Refuse what could not be called with a handle, or whose body would not run when it is."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise RegistryError(f"singleton '{name}': expected a function, got {function!r}")
    signature = inspect.signature(function)
    try:
        signature.bind(None)
    except TypeError as error:
        raise RegistryError(
            f"singleton '{name}': {_place(function)} is called with a Singleton and nothing else, but takes {signature} "
            f"({error}); write: def {function.__name__}(singleton: Singleton) -> None"
        ) from error
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise RegistryError(f"singleton '{name}': {_place(function)} has a yield in it, so calling it would run nothing")


def _settle_options(worker: Worker[Any], kind: Kind[Any]) -> None:
    """Check the worker's options and give the kind those that it leaves open."""
    cls = type(worker)
    timeout: Any = worker.timeout
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < float("inf")):
        raise RegistryError(f"{_place(cls)}.timeout: expected seconds above 0, or None for no limit; got {timeout!r}")
    if not isinstance(worker.archive, bool):
        raise RegistryError(f"{_place(cls)}.archive: expected True or False, got {worker.archive!r}")
    checks: dict[str, Callable[[Any], object]] = {
        "queue": check_queue,
        "priority": check_priority,
        "max_attempts": check_max_attempts,
    }
    given = {name: getattr(worker, name) for name in checks if getattr(worker, name) is not None}
    for name, value in given.items():
        try:
            checks[name](value)
        except FastqError as error:
            raise RegistryError(f"{_place(cls)}: {error}") from error
        stated = getattr(kind, name)
        if stated not in (None, value):
            raise RegistryError(
                f"kind '{kind.name}': {name} is {stated!r} in {kind.place} and {value!r} in {_place(cls)}; "
                f"state it in one of them"
            )
    for name, value in given.items():
        setattr(kind, name, value)


def _place(of: Any) -> str:
    return f"{of.__module__}.{of.__qualname__}"


def _name(of: Any) -> str:
    return str(getattr(of, "__qualname__", of))
