"""Ask a worker process for stacks over one connection, as commands and the dashboard do.

Runs in the caller's thread, over a connection of the caller's (admin/session.py), and waits there for the answer; it keeps
nothing. The questions and the wait are those of the clients (looking.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fastq.admin.running.whereabouts import TIMEOUT
from fastq.admin.session import answered
from fastq.enqueue.operate.looking import looked

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.admin.running.whereabouts import Stack
    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

T = TypeVar("T")


def stack_of(connection: Connection, *, job: int | None = None, process: int | None = None, seconds: float = TIMEOUT) -> Stack:
    """Ask for the stack of a job, or for those of a process, and wait for the answer."""

    def asked(asking: Asking[T], conn: Conn | None, *, whole: bool = False) -> T:
        assert conn is None
        return answered(connection, asking, whole=whole)

    return looked(asked, job=job, process=process, seconds=seconds)
