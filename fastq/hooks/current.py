"""Know the job that the code which asks runs in: `current_job`, by a context variable.

The variable is set around `work` in the executor thread or in the slot's task on the event loop, and taken back at the end. So
tasks that a job starts and `asyncio.to_thread` inherit it, as they inherit every context variable; threads that a job starts by
itself do not, unless it runs them in a copy of its context.

Setting it takes some 0.2 us a job, and only a program that asks for the current job pays that. The application's import of this
module is the sign (`fastq.current_job` imports it, and so does `fastq.logs`): work/shared/called.py looks for it, once per kind
and claim. Other ways were cheaper for such programs and worse: a slot that is found by its thread or task says nothing in a child
task or thread, and to one that has outlived its job it shows a later job of the slot.

Invariant: after a job its thread or task has no value of the variable. The module deliberately knows no slot.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.jobs.job import Job

_CURRENT: ContextVar[Job[Any] | None] = ContextVar("fastq_job", default=None)


def current_job() -> Job[Any] | None:
    """Return the job that this code runs in; None outside of jobs, and in a thread that a job has started without its context."""
    return _CURRENT.get()


def within(work: Callable[[Any], Any], *, is_async: bool) -> Callable[[Any], Any]:
    """Return a function that shows each job as the current one while it does the work."""
    set_, reset = _CURRENT.set, _CURRENT.reset

    def shown(job: Job[Any]) -> object:
        token = set_(job)
        try:
            return work(job)
        finally:
            reset(token)

    async def shown_async(job: Job[Any]) -> object:
        token = set_(job)
        try:
            return await work(job)
        finally:
            reset(token)

    return shown_async if is_async else shown
