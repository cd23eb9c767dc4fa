"""Find the mistakes in a worker when it is registered, not when its first job comes.

Called for a `Registry` (registry.py), at import, in one thread. Each check raises a RegistryError that names the class and says
how to mend it. Nothing is kept here; `settle_options` writes the options into the kind, which the declaration owns. The class
`Worker` comes as an argument, since worker.py imports this module.
"""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any

from fastq.args.gates import check_gates
from fastq.args.keyed import check_by, check_fields
from fastq.args.meta import CHECKS
from fastq.args.options import check_either, check_max_attempts, check_priority, check_queue
from fastq.args.unique import check_unique
from fastq.errors import FastqError, RegistryError
from fastq.isolate import isolation_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.args.kinds import Kind
    from fastq.jobs.worker import Worker

OF_MANY = ("up_to", "within", "same")
"""Attributes that say which jobs come into one call of `work_many`."""

OF_ALL = ("queue", "priority", "max_attempts", "gates", "unique", *CHECKS, "timeout", "hooks", "archive", "logs", "isolate")
ATTRIBUTES = (*OF_ALL, *OF_MANY)
METHODS = ("retry_delay", "work_many")
"""Attributes and methods that a worker may have besides `work`: a similar name is probably one of them, misspelt."""

FOREIGN = {
    **dict.fromkeys(("retries", "max_retries", "max_tries", "retry"), "max_attempts"),
    **dict.fromkeys(("time_limit", "soft_time_limit"), "timeout"),
    **dict.fromkeys(("isolated", "subprocess", "process_per_job", "fork"), "isolate"),
    **dict.fromkeys(("middleware", "middlewares", "hook"), "hooks"),
    **dict.fromkeys(("batch_size", "chunk_size", "max_batch_size", "flush_every"), "up_to"),
    **dict.fromkeys(("batch_timeout", "flush_interval", "max_delay"), "within"),
}
"""Names that other job queues have for ours: a user who comes from there and writes one of them means ours."""

OF_THE_ARGS = {
    "tags": "tags are the args' own: class YourArgs(Args, kind=..., tags=[...]), or enqueue(..., tags=[...]).",
    "delay": "a delay is an enqueue's own: enqueue(..., delay=60).",
}
"""Options of the args or of an enqueue, which a worker has not -> where to give them."""

CLASS_LINE = {
    "kind": "name it in the args' class, or for args of others in the class line: class X(Worker[...], kind=...)",
    "is_async": "write async def work",
}
"""Attributes that have no effect in a worker's body -> how to write them instead."""

LONGEST_WAIT = 60.0
"""Seconds for which the first job of a bundle may wait: it is claimed meanwhile, and a process that stops hands it back."""

OF_ONE = {
    "isolate": "a process of its own is for one job",
    "logs": "a line that is logged or printed there is nobody's",
}
"""Options that a batch worker cannot have -> why."""

ALIKE = 0.8
"""How alike a name and a slip of it are: `timout`, `time_out`, `attempts`; `queue_url` and `timer` are not."""


def check_worker(worker: Worker[Any], base: type[Worker[Any]]) -> None:
    """Refuse a worker if its jobs would fail, or if it states something that has no effect; `base` is the class `Worker`."""
    _check_work(worker, base)
    _check_of_one(worker, base)
    _check_retry_delay(worker)
    _check_attributes(type(worker), base)


def _check_work(worker: Worker[Any], base: type[Worker[Any]]) -> None:
    """Refuse a `work` that could not be called, or that would not run its body when called."""
    cls = type(worker)
    name, what, wanted = "work", "a job and nothing else", "def work(self, job: Job[...])"
    if takes_many(worker, base):
        if cls.work is not base.work:
            raise RegistryError(f"{place(cls)} has work and work_many; write one of them: work for each job, work_many for many")
        if cls.mode != base.mode:
            raise RegistryError(f"{place(cls)}.mode: work_many is executed in a way of its own; leave mode={cls.mode!r} out")
        name, what, wanted = "work_many", "a list of jobs and nothing else", "def work_many(self, jobs: Sequence[Job[...]])"
    elif own := next((name for name in OF_MANY if getattr(cls, name) is not getattr(base, name)), None):
        raise RegistryError(f"{place(cls)}.{own} has an effect on work_many alone; write that in place of work, or leave it out")
    elif cls.work is base.work or not callable(worker.work):
        raise RegistryError(f"{place(cls)} has no work method; write: {wanted} -> None")
    _check_call(worker, name, what, wanted, None)
    if inspect.isgeneratorfunction(getattr(worker, name)) or inspect.isasyncgenfunction(getattr(worker, name)):
        raise RegistryError(f"{place(cls)}.{name} has a yield in it, so calling it would run nothing; return instead")


def takes_many(worker: Worker[Any], base: type[Worker[Any]]) -> bool:
    """Tell whether a worker is given many jobs in one call."""
    return type(worker).work_many is not base.work_many


def _check_of_one(worker: Worker[Any], base: type[Worker[Any]]) -> None:
    """Refuse an option of workers with one job at a time, where one call has many."""
    for name, why in OF_ONE.items():
        if getattr(worker, name) and takes_many(worker, base):
            raise RegistryError(
                f"{place(type(worker))}.{name}: a call of work_many has many jobs, and {why}; write def work for it"
            )


def _settle_many(worker: Worker[Any], type_: Any) -> None:
    """Check which jobs come into one call of `work_many`."""
    where = place(type(worker))
    up_to: Any = worker.up_to
    within: Any = worker.within
    if not isinstance(up_to, int) or isinstance(up_to, bool) or up_to < 1:
        raise RegistryError(f"{where}.up_to: expected a number of jobs from 1 on, got {up_to!r}")
    number = isinstance(within, int | float) and not isinstance(within, bool)
    if not number or not 0 <= within <= LONGEST_WAIT:
        raise RegistryError(
            f"{where}.within: expected seconds from 0 to {LONGEST_WAIT:.0f}, got {within!r}; jobs that are to come together "
            "after a longer time are better enqueued with a delay"
        )
    try:
        check_by(worker.same, f"{where}.same")
        check_fields(worker.same, type_, f"{where}.same")
    except FastqError as error:
        raise RegistryError(str(error)) from error
    if callable(worker.same):
        raise RegistryError(f"{where}.same: expected the name of a field, such as 'account_id', or several; got a function")


def _check_retry_delay(worker: Worker[Any]) -> None:
    """Refuse a `retry_delay` that would give no number: otherwise this showed only when a job has failed."""
    cls, wanted = type(worker), "def retry_delay(self, attempt: int, error: BaseException) -> float"
    given: Any = worker.retry_delay
    if not callable(given) or inspect.iscoroutinefunction(given):
        got = "an async def" if callable(given) else repr(given)
        raise RegistryError(f"{place(cls)}.retry_delay: expected a method, got {got}; write: {wanted}")
    _check_call(worker, "retry_delay", "an attempt and an error", wanted, 1, None)


def _check_call(worker: Worker[Any], name: str, what: str, wanted: str, *given: object) -> None:
    """Refuse a method that cannot be called with the arguments that fastq passes."""
    signature = inspect.signature(getattr(worker, name))
    try:
        signature.bind(*given)
    except TypeError as error:
        raise RegistryError(
            f"{place(type(worker))}.{name} is called with {what}, but takes {signature} ({error}); write: {wanted}"
        ) from error


def _check_attributes(cls: type[Worker[Any]], base: type[Worker[Any]]) -> None:
    """Refuse an attribute that is an option but for a slip: it would have no effect, and no type checker sees it."""
    for name in ("kind", "is_async"):
        if inspect.getattr_static(cls, name, None) is not inspect.getattr_static(base, name, None):
            raise RegistryError(f"{place(cls)}.{name}: registering sets it; {CLASS_LINE[name]}")
    for name in [name for name in dir(cls) if not name.startswith("_") and not hasattr(base, name)]:
        value = inspect.getattr_static(cls, name)
        known = ATTRIBUTES if isinstance(value, int | float | str | None) else METHODS if inspect.isfunction(value) else ()
        near = difflib.get_close_matches(name, known, n=1, cutoff=ALIKE)
        meant = near[0] if near else FOREIGN.get(name)
        hint = f"did you mean {meant}?" if meant else OF_THE_ARGS.get(name)
        if hint:
            raise RegistryError(
                f"{place(cls)}.{name}: a worker has no such option; {hint} One of your own begins with '_', "
                "or has a name less like it"
            )


def unknown_argument(name: str) -> str:
    """Return the error for an argument of a worker's class line, which takes `kind` alone."""
    near = difflib.get_close_matches(name, ATTRIBUTES, n=1, cutoff=ALIKE)
    meant = near[0] if near else FOREIGN.get(name)
    hint = (
        OF_THE_ARGS.get(name)
        or f"an option is an attribute: write {meant or name} = ... in the class; there are {', '.join(ATTRIBUTES)}"
    )
    return f"its class line takes kind=... and no {name}; {hint}"


def settle_options(worker: Worker[Any], kind: Kind[Any], result: Any = None) -> None:
    """Check the worker's options, and the type of its results, and give the kind those that it leaves open."""
    cls = type(worker)
    _check_own(worker, place(cls))
    _settle_many(worker, kind.type)
    checks: dict[str, Callable[[Any], Any]] = {
        "queue": check_queue,
        "priority": check_priority,
        "max_attempts": check_max_attempts,
        "gates": check_gates,
        "unique": check_unique,
        **CHECKS,
    }
    given = {name: getattr(worker, name) for name in checks if getattr(worker, name) not in (None, ())}
    if result is not None:
        given["result"] = result
    for name, value in list(given.items()):
        try:
            given[name] = checks.get(name, _as_it_is)(value)
        except FastqError as error:
            raise RegistryError(f"{place(cls)}: {error}") from error
        stated = getattr(kind, name)
        if stated not in (None, (), given[name]):
            raise RegistryError(
                f"kind '{kind.name}': {name} is {stated!r} in {kind.place} and {value!r} in {place(cls)}; state it in one of them"
            )
    for name, value in given.items():
        setattr(kind, name, value)
    try:
        check_either(kind.max_attempts, kind.keep_trying_for)
        kind.check_fields()
    except FastqError as error:
        raise RegistryError(str(error)) from error


def _check_own(worker: Worker[Any], where: str) -> None:
    """Check the options that the kind does not share."""
    timeout: Any = worker.timeout
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < float("inf")):
        raise RegistryError(f"{where}.timeout: expected seconds above 0, or None for no limit; got {timeout!r}")
    if not isinstance(worker.archive, bool):
        raise RegistryError(f"{where}.archive: expected True or False, got {worker.archive!r}")
    if worker.logs is not None and not isinstance(worker.logs, bool):
        raise RegistryError(f"{where}.logs: expected True, False, or None for what the registry says; got {worker.logs!r}")
    try:
        isolation_of(worker.isolate)
    except FastqError as error:
        raise RegistryError(f"{where}.{error}") from error


def _as_it_is(value: Any) -> Any:
    return value


def place(of: Any) -> str:
    """Say where something is written."""
    return f"{of.__module__}.{of.__qualname__}"


def name_of(of: Any) -> str:
    """Return the name of a type as it is written."""
    return str(getattr(of, "__qualname__", of))
