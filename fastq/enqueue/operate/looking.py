# Made by tools/twins.py from enqueue/operate/looking_async.py: change that file, then run `make twins`.
"""Look at the worker processes of all hosts, and ask them where their jobs are: methods of a client.

A part of the class `Client` (client.py), which has the sessions; `looked` is also used by `client.jobs.stack`
(many_jobs.py). `AsyncLooking` (looking_async.py) is the same part of `AsyncClient`, and the source of this one.

A question is asked, and its answer looked for a few times in the first second; the connection is lent for each statement alone.
It deliberately decides nothing: admin/running/whereabouts.py has the statements and the sentences.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from fastq.admin.running import hosts, whereabouts
from fastq.admin.running.whereabouts import LOOKS, TIMEOUT
from fastq.postgres.pool import in_threads

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.admin.running.hosts import ProcessRow
    from fastq.admin.running.whereabouts import Stack
    from fastq.admin.session import Asking
    from fastq.enqueue.operate.many_jobs import Asks

T = TypeVar("T")


def looked(asked: Asks, *, job: int | None, process: int | None, seconds: float) -> Stack:
    """Ask for a stack, and wait for the answer."""
    bell, end = in_threads.Bell(), time.monotonic() + seconds
    request = asked(whereabouts.asking(job, process, seconds), None)
    if request.id is None:
        return request.told
    looks = 0
    while time.monotonic() < end:
        bell.wait(LOOKS[min(looks, len(LOOKS) - 1)])
        looks += 1
        if (told := asked(whereabouts.taking(request), None)) is not None:
            return told
    return asked(whereabouts.giving_up(request, seconds), None)


class Looking:
    """The part of a client that looks at processes."""

    def processes(self, *, conn: Conn | None = None) -> list[ProcessRow]:
        """Return the worker processes of all hosts, with their memory, threads and executors at the last beat."""
        return self._asked(hosts.all_processes(), conn)

    def process_stack(self, process: int, *, timeout: float = TIMEOUT) -> Stack:
        """Ask a worker process, by its number, for the stacks of its jobs and threads; the sentence `why` if it does not tell.

        The text has files, lines and names of functions, and no value of a variable.
        """
        return looked(self._asked, job=None, process=process, seconds=timeout)

    def _asked(self, asking: Asking[T], conn: Conn | None, *, whole: bool = False) -> T:
        """Run statements that follow one another."""
        raise NotImplementedError
