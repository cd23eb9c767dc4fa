# Made by tools/twins.py from awaiting/results_async.py: change that file, then run `make twins`.
"""Wait for jobs, and see how far they are: methods of a client.

A base class of `Client` (client.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's thread.

`AsyncResults` (results_async.py) is the same part of `AsyncClient`, and the source of this one.

How the ends of jobs are found out is in ends.py: what its `wait` returns belongs to that call, and is written by the caller
that has the turn to look.

It deliberately waits for no job that others cannot see: it would never end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fastq.awaiting.finished import Finished, JobProgress, finished_of
from fastq.errors import JobNotFound, OptionError

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.adapters.library import Rows
    from fastq.awaiting.ends import Ends
    from fastq.enqueue.items import Enqueued
    from fastq.enqueue.settings import Settings

R = TypeVar("R")


class Results:
    """The part of a client that is about what jobs come to."""

    _settings: Settings

    @overload
    def wait(self, job_id: int, *, result: type[R], timeout: float | None = None) -> Finished[R]: ...
    @overload
    def wait(self, job_id: Enqueued[R], *, timeout: float | None = None) -> Finished[R]: ...
    @overload
    def wait(self, job_id: int, *, timeout: float | None = None) -> Finished[Any]: ...
    def wait(self, job_id: int, *, result: Any = None, timeout: float | None = None) -> Finished[Any]:
        """Return a job when it has ended, in whatever state: `client.wait(job, timeout=10).unwrap()` is its output.

        The output has the type `result`, or the one that the job's kind declares if the id is what `enqueue` returned, or is a
        plain value. TimeoutError after so many seconds; the job goes on. JobNotFound if there is no such job, or no longer.
        """
        return (self.wait_many([job_id], result=result, timeout=timeout))[0]

    @overload
    def wait_many(self, job_ids: Iterable[int], *, result: type[R], timeout: float | None = None) -> list[Finished[R]]: ...
    @overload
    def wait_many(self, job_ids: Iterable[int], *, timeout: float | None = None) -> list[Finished[Any]]: ...
    def wait_many(self, job_ids: Iterable[int], *, result: Any = None, timeout: float | None = None) -> list[Finished[Any]]:
        """Return jobs in the order of their ids here, when the last of them has ended; else as `wait` does."""
        given = list(job_ids)
        numbers = [self._settings.number(job_id) for job_id in given]
        if None in numbers:
            raise JobNotFound([job_id for job_id, number in zip(given, numbers, strict=True) if number is None])
        wanted = [number for number in numbers if number is not None]
        end = math.inf if timeout is None else time.monotonic() + _seconds(timeout)
        waiting = self._ends().wait(wanted, end)
        if waiting.missing:
            missing = sorted(waiting.missing)
            own = any(getattr(job_id, "in_transaction", False) for job_id in given if int(job_id) in waiting.missing)
            raise JobNotFound(missing, in_transaction=own)
        if left := waiting.left:  # read once: a caller that looks may replace the set meanwhile
            raise TimeoutError(
                f"{len(left)} of {len(set(wanted))} jobs have not ended in {timeout} s, the first is "
                f"{min(left)}; they go on. client.why says what a job waits for"
            )
        types = [result or getattr(job_id, "result", None) for job_id in given]
        return [finished_of(waiting.found[number], type_) for number, type_ in zip(wanted, types, strict=True)]

    def progress(self, job_id: int) -> JobProgress | None:
        """Return how far a job is, as its `job.progress(...)` has told last; None if it has told nothing, or is gone for long."""
        number = self._settings.number(job_id)
        rows = self._rows(self._settings.text("progress_show"), (number or 0,), None)
        return JobProgress(*rows[0]) if rows else None

    def _ends(self) -> Ends:
        """Return the waits of this process."""
        raise NotImplementedError

    def _rows(self, text: str, parameters: tuple[object, ...], conn: Conn | None) -> Rows:
        """Run a statement that reads."""
        raise NotImplementedError


def _seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or math.isnan(timeout):
        raise OptionError(f"timeout {timeout!r}: expected seconds, or None to wait for as long as it takes")
    return float(timeout)
