"""Compose the hooks around a worker's `work` into one function, once, when the worker is registered.

Composed by the thread that imports the application; the functions that are made here run in executor threads and on the event
loop, around the user's code. A function knows the hook and the function inside it, and nothing else, so a job passes as many of
them as its kind has hooks.

Invariant: without hooks `composed` returns `work` itself. It deliberately catches nothing for a hook: the value that a
hook returns or the exception that it raises counts as if `work` had done it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fastq.args.hook import CALLS, Hook, has
from fastq.errors import RegistryError
from fastq.jobs.worker_faults import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker

_ENDED = object()


def composed(worker: Worker[Any], hooks: Iterable[Hook]) -> Callable[[Any], Any]:
    """Return a worker's `work` with the hooks around it, the first one outermost; a hook that stands there twice counts once."""
    call: Callable[[Any], Any] = worker.work
    for hook in reversed({id(hook): hook for hook in hooks}.values()):
        call = _around(worker, hook, call)
    return call


def _around(worker: Worker[Any], hook: Hook, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that calls the hook with each job, and with a way to the function inside."""
    if has(hook, "around"):
        return _opened_async(hook, inner) if worker.is_async else _opened(hook, inner)
    name, other = ("work_async", "work") if worker.is_async else ("work", "work_async")
    if has(hook, name):
        method: Callable[[Any, Any], Any] = getattr(hook, name)
        return lambda job: method(job, partial(inner, job))
    if has(hook, other):
        form = "async def" if worker.is_async else "def"
        raise RegistryError(
            f"{place(type(worker))} has {form} work, and its hook {place(type(hook))} has {other} alone; write {CALLS[name]} in "
            f"the hook too, or for both forms {CALLS['around']}"
        )
    return inner


def _opened(hook: Hook, inner: Callable[[Any], object]) -> Callable[[Any], object]:
    around = hook.around

    def opened(job: Job[Any]) -> object:
        steps = around(job)
        _open(hook, steps)
        try:
            value = inner(job)
        except BaseException as error:
            _close_upon(hook, steps, error)
            raise
        _close(hook, steps)
        return value

    return opened


def _opened_async(hook: Hook, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    around = hook.around

    async def opened(job: Job[Any]) -> object:
        steps = around(job)
        _open(hook, steps)
        try:
            value = await inner(job)
        except BaseException as error:
            _close_upon(hook, steps, error)
            raise
        _close(hook, steps)
        return value

    return opened


def _open(hook: Hook, steps: Iterator[None]) -> None:
    if next(steps, _ENDED) is _ENDED:
        raise RuntimeError(f"{place(type(hook))}.around has ended without a yield: the work belongs at its yield")


def _close(hook: Hook, steps: Iterator[None]) -> None:
    if next(steps, _ENDED) is not _ENDED:
        raise _twice(hook)


def _close_upon(hook: Hook, steps: Any, error: BaseException) -> None:
    """Raise the exception of the work at the yield; return if it comes out as it went in, or not at all."""
    trace = error.__traceback__
    try:
        steps.throw(error)
    except StopIteration:
        return
    except BaseException as raised:
        if raised is error or (
            isinstance(error, StopIteration) and raised.__cause__ is error
        ):  # a generator turns it into another
            return
        raise
    finally:
        error.__traceback__ = trace
    raise _twice(hook)


def _twice(hook: Hook) -> RuntimeError:
    return RuntimeError(f"{place(type(hook))}.around has a second yield: the work is done once")
