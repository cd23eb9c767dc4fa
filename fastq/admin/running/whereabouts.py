"""Ask a worker process where its jobs are: the stack of one that runs, or those of the whole process.

Run in the caller's thread or event loop; the clients and the commands put their statements and their waits between the parts
(enqueue/operate/looking.py). A request is a row of the table `stack` and a hint; the process writes its answer into the row
(work/stacks.py), and the one who asked takes it away.

Invariants: each question ends, with a stack or with a sentence that says why there is none. No value of a variable is ever told.
It deliberately keeps no stack: where a job was a minute ago helps nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.session import Ask
from fastq.errors import OptionError
from fastq.jobs.job import State

if TYPE_CHECKING:
    from datetime import datetime

    from fastq.admin.session import Asking

TIMEOUT = 5.0
"""Seconds for which an answer is waited for: it takes some tens of milliseconds, on a host that hears no hints up to a beat."""

LONGEST = 60.0
"""The longest timeout: a process answers no request that is older (sql/stack_wanted.sql)."""

MAX_ID = 2**63 - 1
"""The largest number that a column of type bigint can hold."""

LOOKS = (0.02, 0.05, 0.1, 0.2)
"""Seconds between two looks for the answer; the last one again and again."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a job, or a whole process, was at a moment; `str(stack)` is the text, or says why there is none.

    The text has files, lines and names of functions, the innermost call last, and no value of a variable.
    """

    job: int | None  # None: the whole process
    process: int | None
    host: str | None
    pid: int | None
    at: datetime | None = None
    text: str | None = None
    why: str = ""  # a sentence, where there is no text

    def __str__(self) -> str:
        """Return the text, or why there is none."""
        return self.why if self.text is None else self.text


class Request(NamedTuple):
    """A question that was asked; `id` is None if nobody can answer it, and `told` says why."""

    id: int | None
    told: Stack


def asking(job: int | None, process: int | None, timeout: float) -> Asking[Request]:
    """Ask for the stack of a job, or for those of a process."""
    if not 0 < timeout <= LONGEST:
        raise OptionError(f"timeout {timeout!r}: expected seconds above 0, {LONGEST:g} at most")
    if not 0 < (job if job is not None else process or 0) <= MAX_ID:
        return Request(None, Stack(job, process, None, None, why=_refusal(Stack(job, process, None, None), None)))
    rows = yield Ask("stack_ask", (process, job), hints=True)
    request, state, number, host, pid, lives = rows[0]
    told = Stack(job, number if number is not None else process, host, pid)
    return Request(request, told if lives else replace(told, why=_refusal(told, state)))


def taking(request: Request) -> Asking[Stack | None]:
    """Take the answer; None if there is none yet."""
    [(at, text, lives)] = yield Ask("stack_take", (request.id, request.told.process))
    if text is not None:
        return replace(request.told, at=at, text=text)
    return None if lives else replace(request.told, why=f"{_place(request.told)} has ended before it could answer")


def giving_up(request: Request, timeout: float) -> Asking[Stack]:
    """Withdraw a question that was not answered in time."""
    yield Ask("stack_drop", (request.id,))
    told = request.told
    why = (
        f"{_place(told)} has not answered for {timeout:g} s: code in C may hold its interpreter, or it hears no hints and no "
        f"beat came; on {told.host}, kill -QUIT {told.pid} writes the stacks of all its threads to the output of fastq run"
    )
    return replace(told, why=why)


def _refusal(told: Stack, state: str | None) -> str:
    """Say why nobody can be asked."""
    if told.job is None:
        return f"there is no worker process {told.process}, or no longer"
    if state is None:
        return f"job {told.job} does not run: it has ended, or does not exist"
    if state != State.RUNNING:
        return f"job {told.job} does not run: it is {state}"
    return f"job {told.job} was claimed by a process that is gone: a leader gives it back"


def _place(told: Stack) -> str:
    return f"worker process {told.process} (pid {told.pid} on {told.host})"
