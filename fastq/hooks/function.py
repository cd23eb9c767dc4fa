"""Make a worker of a function: `@registry.worker` over `def mail(job: Job[MailArgs])`.

Run by the thread that imports the application. The function becomes the `work` of a class that is made for it, with the options
as the attributes of that class, so a worker of either sort is checked, executed and shown in the same way. A function over
`jobs: Sequence[Job[MailArgs]]` becomes its `work_many`: the annotation says whether it is given a job or many.

Invariant: the function itself stays as it is. It deliberately reads the annotation of the one parameter alone: the others of a
function may name things that are there for type checkers only.
"""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, get_args, get_origin, get_type_hints

from fastq.args.kinds import kind_of_type
from fastq.errors import FastqError, RegistryError
from fastq.jobs.declaration import is_function
from fastq.jobs.job import Job
from fastq.jobs.worker import Worker
from fastq.jobs.worker_faults import ALIKE, FOREIGN, OF_MANY, OF_THE_ARGS, name_of, place

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.args.gates import Gate
    from fastq.args.hook import Hook
    from fastq.args.kinds import Kind
    from fastq.args.options import Counting, Span
    from fastq.args.unique import Unique
    from fastq.isolate import Isolate


class WorkerOptions(TypedDict, total=False):
    """The options of `@registry.worker(...)`: those that a class derived from Worker states or writes."""

    kind: Kind[Any]
    queue: str
    priority: int
    max_attempts: int
    timeout: float | None
    gates: Sequence[Gate]
    unique: Unique
    expires: Span
    deadline: Span
    keep_trying_for: Span
    attempts: Counting
    hooks: Sequence[Hook]
    archive: bool
    logs: bool
    isolate: bool | Isolate
    up_to: int
    within: float
    same: str | tuple[str, ...]
    retry_delay: Callable[[int, BaseException], float]


NAMES = tuple(WorkerOptions.__annotations__)


def worker_of(function: Callable[[Any], object], options: WorkerOptions) -> type[Worker[Any]]:
    """Return a class of workers that has the function as its method; RegistryError if the function does not say which jobs."""
    if not is_function(function):
        advice = "register a class with @registry.register" if isinstance(function, type) else "expected a def or an async def"
        raise RegistryError(f"@registry.worker over {function!r}: {advice}")
    told = place(function)
    _check_options(told, options)
    args, many = _args_of(function)
    if not many and (of_many := next((name for name in OF_MANY if name in options), None)):
        wanted = f"def {function.__name__}(jobs: Sequence[Job[{name_of(args)}]])"
        raise RegistryError(f"{told}: {of_many} has an effect on functions that take many jobs alone; write: {wanted}")
    own = {name: value for name, value in options.items() if name not in ("kind", "retry_delay")}
    own |= {"__module__": function.__module__, "__qualname__": function.__qualname__, "__doc__": function.__doc__}
    own["work_many" if many else "work"] = staticmethod(function)
    if "retry_delay" in options:
        own["retry_delay"] = staticmethod(options["retry_delay"])
    if "kind" not in options:
        try:
            kind_of_type(args)
        except FastqError as error:
            raise RegistryError(f"{told}: {error}; or @registry.worker(kind=...)") from error
    handle = {"kind": options["kind"]} if "kind" in options else {}
    made: type[Worker[Any]] = types.new_class(function.__name__, (Worker[args],), handle, lambda body: body.update(own))  # type: ignore[valid-type]
    return made


def _check_options(told: str, options: WorkerOptions) -> None:
    unknown = sorted(options.keys() - set(NAMES))
    if unknown:
        near = difflib.get_close_matches(unknown[0], NAMES, n=1, cutoff=ALIKE)
        meant = near[0] if near else FOREIGN.get(unknown[0])
        hint = OF_THE_ARGS.get(unknown[0]) or (f"did you mean {meant}?" if meant else f"there are {', '.join(NAMES)}")
        raise RegistryError(f"{told}: @registry.worker takes no {unknown[0]}; {hint}")


def _args_of(function: Callable[[Any], object]) -> tuple[type[Any], bool]:
    """Return the type of the args that the function's parameter is annotated with, and whether it takes many jobs."""
    told, wanted = place(function), f"write: def {function.__name__}(job: Job[YourArgs])"
    signature = inspect.signature(function)
    try:
        bound = signature.bind("job")
    except TypeError as error:
        called = "is called with a job, or with a list of jobs, and nothing else"
        raise RegistryError(f"{told} {called}, but takes {signature} ({error}); {wanted}") from error
    found = _annotation(function, next(iter(bound.arguments), ""), wanted)
    many = get_origin(found) is Sequence
    job = next(iter(get_args(found)), found) if many else found
    parameters = get_args(job)
    if get_origin(job) is not Job or not isinstance(parameters[0], type):
        got = found if get_args(found) else name_of(found)
        raise RegistryError(f"{told}: expected a parameter of type Job[YourArgs] or Sequence[Job[YourArgs]], got {got}; {wanted}")
    args: type[Any] = parameters[0]
    return args, many


def _annotation(function: Callable[[Any], object], name: str, wanted: str) -> Any:
    """Return the type that a parameter of the function is annotated with."""
    told = place(function)
    written = inspect.get_annotations(function).get(name)
    if written is None:
        raise RegistryError(f"{told} does not say what it works; {wanted}")
    holder = types.SimpleNamespace(__annotations__={name: written})
    try:
        return get_type_hints(holder, globalns=function.__globals__)[name]
    except NameError as error:
        raise RegistryError(
            f"{told}: its annotation {written!r} cannot be read ({error}); import Job and Sequence, and define the args, at "
            "module level and not for type checkers alone"
        ) from error
