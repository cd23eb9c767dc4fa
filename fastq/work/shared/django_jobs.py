"""Treat each job as Django treats a request, if the application has a Django.

`within` is asked in a program that has imported Django (called.py): by the producer's thread of a worker process, once per kind
and claim. The function that it returns runs in executor threads and on the event loop. The connections are Django's; ours are the
threads without a job (`_free`) alone. Django keeps a connection per thread and looks after it between requests only: there, and
nowhere else, it closes one that broke or is older than CONN_MAX_AGE. Without that a connection which was cut once fails all jobs
of its thread for ever.

An async job calls Django through asgiref, which runs all such calls of a process in one thread by default. Under ASGI each
request has a thread of its own, and so has each job here: else one slow query would hold up all jobs, and the end of one job
would close the connection in the middle of another's. Threads are kept for the next jobs, with their connections; a job that
makes no such call makes no thread.

Invariant: without a configured Django `within` returns the function that it was given, and the executors' way has not a line
more. It deliberately sends no signal of Django's, since receivers expect a request with it, and leaves singletons alone: they
have no end between two requests.
"""

from __future__ import annotations

import functools
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from fastq.work.shared import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_left_alone = False  # written by `left_alone`


@contextmanager
def left_alone() -> Iterator[None]:
    """Leave Django's connections as they are for a while: in a test, whose transaction is open on one of them."""
    global _left_alone  # noqa: PLW0603 - of the process, as Django's connections are
    before, _left_alone = _left_alone, True
    try:
        yield
    finally:
        _left_alone = before


def within(work: Callable[[Any], Any], *, is_async: bool) -> Callable[[Any], Any]:
    """Return the function to call with each job of a worker: its `work`, with Django's part around it if a Django is set up."""
    if not sys.modules["django.conf"].settings.configured or _left_alone:
        return work
    return functools.partial(_await_job if is_async else _run_job, work)


def _run_job(work: Callable[[Any], object], job: object) -> object:
    _begin()
    try:
        return work(job)
    finally:
        if not forks.forked:  # a child that the job forked would close its parent's session
            _end()


async def _await_job(work: Callable[[Any], Any], job: object) -> object:
    from asgiref.sync import SyncToAsync, ThreadSensitiveContext  # noqa: PLC0415 - Django has it, we need not

    thread = _free.pop() if _free else _Thread()
    context = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[context] = thread
    token = SyncToAsync.thread_sensitive_context.set(context)
    try:
        return await work(job)
    finally:
        SyncToAsync.thread_sensitive_context.reset(token)
        SyncToAsync.context_to_thread_executor.pop(context, None)
        if not forks.forked:
            thread.leave()


class _Thread(ThreadPoolExecutor):
    """The one thread in which Django's calls of an async job run, one job after the other; it starts with the first call.

    Nobody waits for it: a call that a cancelled job has left behind may last, and no other job gets the thread before that
    call has ended.
    """

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="fastq django")
        self._used = False  # by the present job; written on the event loop

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a call run in the thread; the first one of a job comes after the beginning of a request."""
        if not self._used:
            self._used = True
            super().submit(_begin)
        return super().submit(call, *args, **kwargs)

    def leave(self) -> None:
        """End the present job's use of the thread."""
        if not self._used:
            _free.append(self)
            return
        self._used = False
        super().submit(_end).add_done_callback(lambda _: _free.append(self))


_free: list[_Thread] = []
"""The threads without a job; taken by the event loop, given back by it or by the threads themselves: both in one step."""


def _begin() -> None:
    """Run the receivers that Django connects to `request_started`."""
    from django import db  # noqa: PLC0415 - imported already, or it would not be configured

    db.reset_queries()
    db.close_old_connections()


def _end() -> None:
    """Run those of `request_finished`; a connection that cannot be closed now fails again, loudly, when the next job begins."""
    from django import db  # noqa: PLC0415

    with suppress(Exception):
        db.close_old_connections()
        if caches := sys.modules.get("django.core.cache"):
            caches.close_caches()
