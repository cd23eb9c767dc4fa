"""Know which class works a kind: `Worker`, from which an application derives its own.

Workers are registered (registry.py) while the application is imported, and only read afterwards, by every process and thread;
but the main thread of a worker process makes `attend` the work of isolated workers before it starts another thread. One
instance of each serves all executor threads of a process: the attributes that it sets on `self` are shared by jobs that run at
the same time.

Everything about a worker that can be wrong is found when it is registered, not when its first job comes (worker_faults.py): no
type parameter, no `work`, a `work` that takes something else, a bad option, a second worker for the same kind.

An option belongs to the kind. The args class may state it. If it does not, the worker's value is given to the kind, so that a
`Client` in the same program enqueues with it. If both state it and differ, the worker is refused. A worker deliberately keeps no
state of a job: it is one object for all of them.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Never, TypeAlias, TypeVar, get_args, get_origin

from fastq.args.faults import fault_in_fields
from fastq.args.gates import Gate
from fastq.args.hook import Hook
from fastq.args.kinds import Kind, R, check_result, kind_of_type, unfinished
from fastq.args.options import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Counting, Span
from fastq.args.unique import Unique
from fastq.errors import FastqError, RegistryError
from fastq.isolate import Isolate
from fastq.jobs.declaration import Declaration
from fastq.jobs.job import Job
from fastq.jobs.outcome import Verdict
from fastq.jobs.retry import default_delay
from fastq.jobs.worker_faults import check_worker, name_of, place, settle_options, takes_many, unknown_argument

A = TypeVar("A")
W = TypeVar("W", bound="Worker[Any]")

Result: TypeAlias = R | Verdict | BaseException | None
"""What `work_many` returns for one job."""

THREADS, LOOP, ISOLATED, BUNDLES = "threads", "loop", "isolated", "bundles"
"""Modes of `def work`, of `async def work`, of either in a process for each job, and of `work_many` in both forms."""

UP_TO = 100
"""Jobs of a bundle at most, where the worker says nothing: a guess at what one call of an API or one statement takes well."""

WITHIN = 0.5
"""Seconds for which the first job of a bundle waits for others: a guess at a delay of which nobody takes note."""

DEFAULT_TIMEOUT = 60.0  # s; most jobs take less than one, and a thread that hangs must not keep its slot for long


class Worker(Generic[A, R]):
    """Derive from `Worker[SortArgs]`, write `work`, register it. For a TypedDict: `Worker[MailDict], kind=MAIL`.

    `Worker[SortArgs, list[str]]` declares the type of the value that `work` returns, which a program that waits gets again.

    A batch worker has `work_many` in place of `work`, and is given many jobs in one call: docs/batch-workers.md.

    May be set in the class, for all jobs of the kind: `queue`, `priority`, `max_attempts`, `attempts`, `gates`, `unique`,
    `expires`, `deadline`, `keep_trying_for`, `timeout`, `hooks`, `archive`, `logs`, `isolate`; with `work_many` also `up_to`,
    `within`, `same`. May be written: `retry_delay`. Once it is registered, `kind`, `is_async`, `takes_many` and `mode` tell which
    jobs it works, and how; `called` is `work`, or `work_many`, with the hooks around it.
    """

    queue: str | None = None  # of jobs that are enqueued without one; None: the kind's, or "default"
    priority: int | None = None  # 1 (first) to 4 (last); None: the kind's, or 1
    max_attempts: int | None = None  # after which a failing job is discarded; None: the kind's, or 25
    timeout: float | None = DEFAULT_TIMEOUT  # s from the start of `work`; None: no limit
    gates: Sequence[Gate] = ()  # what its jobs may have to wait for; (): the kind's
    unique: Unique | None = None  # which of its jobs count as one, so that there is one at a time; None: the kind's
    hooks: Sequence[Hook] = ()  # around `work`, inside of those of its kind and of its registry
    expires: Span | None = None  # s from when a job is due, after which it does not start; None: the kind's
    deadline: Span | None = None  # s from when a job is due, by which it is to have ended; None: the kind's
    keep_trying_for: Span | None = None  # s from when a job is due, for which it is tried again, in place of max_attempts
    attempts: Counting | None = None  # "since_progress": they count from the job's last step or move of a cursor on
    logs: bool | None = None  # True: what its jobs log and print is kept; None: as the registry says
    archive: bool = True  # False: completed jobs of this kind leave no row behind, nor their outputs
    isolate: bool | Isolate = False  # True, or Isolate(memory=...): each job runs in a process of its own
    up_to: int = UP_TO  # jobs of one call of `work_many`, at most
    within: float = WITHIN  # s for which the first of them waits for others
    same: str | tuple[str, ...] | None = None  # a field of the args, or several, that is alike in all of them

    kind: Kind[A, R]  # set when registered
    is_async: bool = False  # set when registered: whether it is `async def work`
    takes_many: bool = False  # set when registered: whether it has `work_many` in place of `work`
    mode: str = THREADS  # in which way its jobs are executed (work/modes.py); set when registered
    called: Callable[[Any], Any] | None = None  # set when registered
    _handle: ClassVar[Kind[Any] | None] = None

    def __init_subclass__(cls, *, kind: Kind[A, R] | None = None, **others: Never) -> None:
        """Note the handle of a kind that has no args class of its own."""
        super().__init_subclass__()
        if others:
            raise RegistryError(f"{place(cls)}: {unknown_argument(min(others))}")
        if kind is not None:
            cls._handle = kind

    def work(self, job: Job[A]) -> R | Verdict | Awaitable[R | Verdict | None] | None:
        """Do the job. Return anything (done); return or raise `Snooze(seconds)`, `Cancel(reason)`; raise to fail the attempt."""
        raise NotImplementedError

    def work_many(self, jobs: Sequence[Job[A]]) -> Result[R] | Sequence[Result[R]] | Mapping[Job[A], Result[R]] | Awaitable[Any]:
        """Do many jobs at once, in place of `work`. Return nothing: all are done; raise: all attempts fail.

        Where they end differently, return a list with a result for each job, in their order, or a dict with those of some: the
        others are done. A result is what `work` would return, or an exception, by which the attempt fails. A decision, such as
        `Snooze(60)`, that is no part of a list or dict is one for all.
        """
        raise NotImplementedError

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002 - for a worker's own method
        """Say how many seconds to wait after this attempt failed with this error, which `work` has raised.

        Not asked where `work` has raised nothing: stored args that do not fit, a job that was given up, an outcome that could not
        be stored. Those wait the default.
        """
        return default_delay(attempt)


class WorkerDeclaration(Declaration):
    """A worker as it is registered; its name is the kind that it works."""

    noun, works = "worker", True
    columns = ("kind", "worker", "queue", "timeout", "max_attempts", "work")

    def __init__(
        self, worker: type[Worker[Any]] | Worker[Any], composed: Callable[[Worker[Any]], Callable[[Any], Any]] | None = None
    ) -> None:
        made = _make(worker) if isinstance(worker, type) else worker
        if not isinstance(made, Worker):
            raise RegistryError(f"expected a Worker, got {made!r}; derive it from Worker[YourArgs]")
        self._worker, self._composed = made, composed
        self._kind = _kind_of_worker(type(made))
        self.name, self.also, self.place = self._kind.name, self._kind.aliases, place(type(made))

    @property
    def thing(self) -> Worker[Any]:
        """Return the worker."""
        return self._worker

    def twice(self, known: Declaration, name: str) -> str:
        """Say that the kind has a worker already."""
        advice = "remove one, or give its args a kind of their own"
        if name in (*self.also, *known.also):
            advice = "take the name out of the aliases, or remove the worker that has it as its kind"
        return f"kind '{name}' has two workers: {known.place} and {self.place}; {advice}"

    def check(self) -> None:
        """Refuse a worker whose jobs would fail; then settle its options, and note its kind and mode in it."""
        worker, kind = self._worker, self._kind
        if reason := unfinished(kind.type) or fault_in_fields(kind.type):
            raise RegistryError(f"{self.place}: the args of kind '{kind.name}': {reason}")
        if (missing := kind.upgrades.missing()) is not None:
            what = f"version {kind.version} and no upgrade from version {missing}"
            remedy = (
                f"write @upgrade({name_of(kind.type)}, from_version={missing}) above a function before the worker is registered"
            )
            raise RegistryError(f"{self.place}: kind '{kind.name}' has {what}; {remedy}")
        check_worker(worker, Worker)
        settle_options(worker, kind, _declared_result(type(worker)))
        worker.kind = kind
        worker.takes_many = many = takes_many(worker, Worker)
        worker.is_async = inspect.iscoroutinefunction(worker.work_many if many else worker.work)
        if worker.mode in (THREADS, LOOP, BUNDLES):  # any other way is stated in the class, and has its own form of `work`
            worker.mode = BUNDLES if many else ISOLATED if worker.isolate else LOOP if worker.is_async else THREADS
        worker.called = self._composed(worker) if self._composed is not None else None

    def row(self) -> tuple[str, ...]:
        """Return the worker's row in the table of `fastq run`."""
        worker = self._worker
        timeout = "none" if worker.timeout is None else f"{worker.timeout:g} s"
        attempts = str(worker.kind.max_attempts or DEFAULT_MAX_ATTEMPTS)
        work = ("async" if worker.is_async else "sync") + (", isolated" if worker.isolate else "")
        work += f", up to {worker.up_to}" if worker.mode == BUNDLES else ""
        return (self.name, type(worker).__qualname__, worker.kind.queue or DEFAULT_QUEUE, timeout, attempts, work)


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
    return next((parameters[0] for _, parameters in _written(cls) if not isinstance(parameters[0], TypeVar)), None)


def _declared_result(cls: type[Worker[Any]]) -> Any:
    """Return Y of the nearest `Worker[X, Y]`; None if it is left open."""
    found = next((parameters[1] for base, parameters in _written(cls) if base is Worker), Any)
    if found is Any or type(found) is type(R):
        return None
    try:
        return check_result(found)
    except FastqError as error:
        raise RegistryError(f"{place(cls)}: {error}") from error


def _written(cls: type[Worker[Any]]) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """Yield the bases that are written with parameters, the nearest first."""
    for base in cls.__mro__:
        for written in base.__dict__.get("__orig_bases__", ()):
            origin = get_origin(written)
            if isinstance(origin, type) and issubclass(origin, Worker):
                yield origin, get_args(written)
