"""Know which attempt the code that logs or prints belongs to, and begin its transcript with its first log line.

`within` is called by the thread that imports the application, when a worker with `logs = True` is registered. The function that
it returns runs around `work`, in executor threads and on the event loop. It sets a context variable, which tasks that a job
starts and `asyncio.to_thread` inherit; a thread that a job starts by itself does not, and nothing that it prints is kept.

A worker process says how a transcript begins (`use`, called by its main thread before any other thread runs), and so does the
process of an isolated job, which hands on what the job tells. Where nobody has said so, in a test of a worker, say, and in a
child that a job has forked, nothing is kept.

Invariant: kinds without logs do not come here. An attempt that neither logs nor prints pays for the variable alone: a list with
its job is set, which gets the transcript as its second item. The module deliberately reads no stream: streams.py does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fastq.jobs.job import Job


class Telling(Protocol):
    """A transcript, as the code of a job reaches it. None of its methods may wait."""

    def log(self, at: float, level: str, source: str, text: str) -> None:
        """Keep a record."""

    def print(self, source: str, text: str) -> None:
        """Keep a text that was printed."""

    def end(self) -> None:
        """Let nothing more in: the attempt has ended."""


Begin = Callable[[Any], Telling]
"""A function that begins the transcript of a job; called by the thread that tells first."""

_CURRENT: ContextVar[list[Any] | None] = ContextVar("fastq_job_log", default=None)
_beginning = threading.RLock()  # while a transcript is made: two threads of one job may tell their first words at once
_begins: Begin | None = None  # written by `use`
_kept = False  # written by `within`
_watches_forks = False  # written by `use`


def within(work: Callable[[Any], Any], *, is_async: bool) -> Callable[[Any], Any]:
    """Return a function that does the work of a job while its log lines are kept."""
    global _kept  # noqa: PLW0603 - whether the application has such a kind
    _kept = True
    set_, reset = _CURRENT.set, _CURRENT.reset

    def kept(job: Job[Any]) -> object:
        told: list[Any] = [job]
        token = set_(told)
        try:
            return work(job)
        finally:
            reset(token)
            _end(told)

    async def kept_async(job: Job[Any]) -> object:
        told: list[Any] = [job]
        token = set_(told)
        try:
            return await work(job)
        finally:
            reset(token)
            _end(told)

    return kept_async if is_async else kept


def is_wanted() -> bool:
    """Tell whether the application has a kind with logs."""
    return _kept


def use(begin: Begin | None) -> None:
    """Name the function that begins the transcripts of this process; None: nothing is kept."""
    global _begins, _watches_forks  # noqa: PLW0603 - one writer per process, like that of the notes
    _begins = begin
    if not _watches_forks:
        _watches_forks = True
        os.register_at_fork(after_in_child=_forget)


def begun(job: Job[Any]) -> Telling | None:
    """Begin the transcript of a job whose code runs elsewhere; None if nothing is kept."""
    begin = _begins
    return None if begin is None else begin(job)


def current() -> Telling | None:
    """Return the transcript of the attempt that this code belongs to; None if there is none, or it is not kept."""
    told = _CURRENT.get()
    if told is None or _begins is None:
        return None
    return told[1] if len(told) > 1 else _begin(told)


def _begin(told: list[Any]) -> Telling | None:
    with _beginning:
        begin = _begins
        if len(told) == 1 and begin is not None:
            told.append(begin(told[0]))
    return told[1] if len(told) > 1 else None


def _end(told: list[Any]) -> None:
    if len(told) == 1:
        told.append(None)  # a thread that the job leaves behind begins none
    elif _begins is not None:
        told[1].end()


def _forget() -> None:
    """Keep nothing in a child that a job has forked: the thread that writes is its parent's."""
    global _begins  # noqa: PLW0603 - the same
    _begins = None
