"""Look at the worker processes of all hosts, and ask them where their jobs are: methods of a client in an event loop.

A part of the class `AsyncClient` (client_async.py), which has the sessions; `looked` is also used by `client.jobs.stack`
(many_jobs_async.py). `Looking` (looking.py) is the same part of `Client`, and is made from this file.

A question is asked, and its answer looked for a few times in the first second; the connection is lent for each statement alone.
It deliberately decides nothing: admin/running/whereabouts.py has the statements and the sentences.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from fastq.admin.running import hosts, whereabouts
from fastq.admin.running.whereabouts import LOOKS, TIMEOUT
from fastq.postgres.pool import in_loop

if TYPE_CHECKING:
    from fastq.adapters.conn import AsyncConn
    from fastq.admin.running.hosts import ProcessRow
    from fastq.admin.running.whereabouts import Stack
    from fastq.admin.session import Asking
    from fastq.enqueue.operate.many_jobs_async import AsyncAsks

T = TypeVar("T")


async def looked(asked: AsyncAsks, *, job: int | None, process: int | None, seconds: float) -> Stack:
    """Ask for a stack, and wait for the answer."""
    bell, end = in_loop.Bell(), time.monotonic() + seconds
    request = await asked(whereabouts.asking(job, process, seconds), None)
    if request.id is None:
        return request.told
    looks = 0
    while time.monotonic() < end:
        await bell.wait(LOOKS[min(looks, len(LOOKS) - 1)])
        looks += 1
        if (told := await asked(whereabouts.taking(request), None)) is not None:
            return told
    return await asked(whereabouts.giving_up(request, seconds), None)


class AsyncLooking:
    """The part of a client that looks at processes."""

    async def processes(self, *, conn: AsyncConn | None = None) -> list[ProcessRow]:
        """Return the worker processes of all hosts, with their memory, threads and executors at the last beat."""
        return await self._asked(hosts.all_processes(), conn)

    async def process_stack(self, process: int, *, timeout: float = TIMEOUT) -> Stack:  # noqa: ASYNC109 - as the blocking side has it
        """Ask a worker process, by its number, for the stacks of its jobs and threads; the sentence `why` if it does not tell.

        The text has files, lines and names of functions, and no value of a variable.
        """
        return await looked(self._asked, job=None, process=process, seconds=timeout)

    async def _asked(self, asking: Asking[T], conn: AsyncConn | None, *, whole: bool = False) -> T:
        """Run statements that follow one another."""
        raise NotImplementedError
