"""The jobs of one call of `work_many`: the result of each, and the hooks around the call.

`results_of` is called where the jobs were executed, in the thread of a bundle or on the event loop, for the value that
`work_many` or a hook around it returned. Hooks are composed by the thread that imports the application, once per worker, as in
around.py. Nothing is kept here.

Invariant: each job has one result, whatever is returned: a value that says nothing clear about the jobs is a failure of all. A
hook that does not know of bundles is refused, for it would look at one job and miss the others. The module deliberately makes no
outcome of a result: settle.py does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fastq.args.hook import CALLS, Hook, has
from fastq.errors import RegistryError
from fastq.jobs.outcome import Verdict
from fastq.jobs.worker_faults import place
from fastq.texts import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker

WANTED = "expected None, a list with a result for each job, a dict of results by job, or a decision for all, such as Snooze(60)"


def results_of(jobs: Sequence[Job[Any]], value: object) -> Sequence[Any]:
    """Return the result of each job; TypeError or ValueError if the value says nothing clear about them."""
    if value is None or isinstance(value, Verdict):
        return [value] * len(jobs)
    if isinstance(value, type) and issubclass(value, Verdict):
        return [value] * len(jobs)  # a call is missing behind it: each attempt fails with a message about that
    if isinstance(value, Mapping):
        ours = {id(job) for job in jobs}
        others = [key for key in value if id(key) not in ours]
        if others:
            raise ValueError(f"work_many returned a dict with the key {others[0]!r}, expected jobs that it was given")
        return [value.get(job) for job in jobs]
    if isinstance(value, list | tuple):
        if len(value) != len(jobs):
            raise ValueError(f"work_many was given {len(jobs)} jobs and returned {len(value)} results; {WANTED}")
        return value
    raise TypeError(f"work_many returned a {name_of(value)}; {WANTED}")


def composed_many(worker: Worker[Any], hooks: Iterable[Hook]) -> Callable[[Any], Any]:
    """Return a worker's `work_many` with the hooks around it, the first one outermost, each of them once."""
    call: Callable[[Any], Any] = worker.work_many
    for hook in reversed({id(hook): hook for hook in hooks}.values()):
        call = _around(worker, hook, call)
    return call


def _around(worker: Worker[Any], hook: Hook, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that calls the hook with the jobs, and with a way to the function inside."""
    name = "work_many_async" if worker.is_async else "work_many"
    if has(hook, name):
        method: Callable[[Any, Any], Any] = getattr(hook, name)
        return lambda jobs: method(jobs, partial(inner, jobs))
    if any(has(hook, other) for other in CALLS if other != "enqueue"):
        form = "async def" if worker.is_async else "def"
        raise RegistryError(
            f"{place(type(worker))} has {form} work_many, and its hook {place(type(hook))} has no {name}; write {CALLS[name]} in "
            "the hook too: it stands around each call, and may return the value of proceed()"
        )
    return inner
