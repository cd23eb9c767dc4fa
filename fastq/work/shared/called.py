"""Find the function that is called with each job of a kind, `work` with all that stands around it, and see whether it has run.

Asked by the producer's thread, once per kind and claim; the function runs in executor threads and on the event loop. Around
`work` stand, from the inside out: the hooks, composed when the worker was registered (hooks/around.py); the current job, where
the application has imported `fastq.current_job` or `fastq.logs`; Django's part, where it has a Django.

Invariant: where there is none of these, the function is `work` itself. It deliberately decides nothing by the job.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastq.events import timed
from fastq.hooks import timing
from fastq.jobs.outcome import Retry, Verdict
from fastq.texts import name_of
from fastq.work.shared import django_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.jobs.worker import Worker

CURRENT, DJANGO = "fastq.hooks.current", "django.conf"
"""The module that says which job is the current one, and that of Django's settings: a program that needs one has imported it."""


def call_of(worker: Worker[Any]) -> Callable[[Any], Any]:
    """Return the function to call with each job of a worker."""
    work = worker.called or worker.work
    current = sys.modules.get(CURRENT)
    if current is not None:
        work = current.within(work, is_async=worker.is_async)
    return django_jobs.within(work, is_async=worker.is_async) if DJANGO in sys.modules else work


def many_of(worker: Worker[Any]) -> Callable[[Any], Any]:
    """Return the function to call with the jobs of a bundle. Its jobs have no single current one.

    A bundle has jobs of several claims, so it is timed here, and not by the batch of a kind (KindBatch.found).
    """
    work = worker.called or worker.work_many
    if timed():
        work = timing.within_many(work, is_async=worker.is_async)
    return django_jobs.within(work, is_async=worker.is_async) if DJANGO in sys.modules else work


def unrun(value: object) -> TypeError | Retry | None:
    """Return an error if `work` returned a coroutine that has yet to run or a class that has yet to be called, else None.

    A decorator hid its `async`, say, or the call is missing behind `Snooze`. A `Retry` is an error itself.

    It is asked only about values that JSON cannot hold, so that it costs nothing for those that it can.
    """
    if isinstance(value, Retry):
        return value
    if isinstance(value, type) and issubclass(value, Verdict):
        return TypeError(
            f"work returned the class {value.__name__} itself, expected one of it, such as Snooze(60) or Cancel('why')"
        )
    if not isinstance(value, Awaitable | Generator | AsyncGenerator):
        return None
    if isinstance(value, Coroutine | Generator):
        with suppress(BaseException):  # a foreign one, or one that has begun
            value.close()
    return TypeError(
        f"work returned a {name_of(value)}, which nobody runs; await it or go through it in work "
        f"(and where work is decorated: the outermost decorator must give an async def)"
    )
