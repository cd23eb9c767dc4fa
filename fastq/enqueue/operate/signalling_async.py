"""Send signals to jobs, and look at the steps that they have done: methods of a client in an event loop.

A base class of `AsyncClient` (client_async.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's event loop.

`Signalling` (signalling.py) is the same part of `Client`, and is made from this file.

Invariant: the first signal of a name is the one that the job finds, whether it comes before or after the job waits for it. It
deliberately waits for nobody: whether the job takes the signal up is the job's own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from fastq.args.meta import in_ascii
from fastq.errors import OptionError, StepError
from fastq.steps import values
from fastq.steps.attempt import named
from fastq.steps.shown import StepRow, step_of

if TYPE_CHECKING:
    from fastq.adapters.conn import AsyncConn
    from fastq.adapters.library import Rows
    from fastq.enqueue.settings import Settings


class AsyncSignalling:
    """The part of a client that is about the steps of jobs."""

    _settings: Settings

    async def signal(self, job_id: SupportsIndex, name: str, value: Any = None, *, conn: AsyncConn | None = None) -> bool:
        """Send a job a signal, which its `job.wait_for(name)` returns; True if it is the first of that name.

        False if the job has had one of that name, which stays; if it has ended, or does not exist. It may come before the job
        waits for it. With `conn` it is sent when that transaction commits.
        """
        return await self._signalled(job_id, name, value, conn) == "sent"

    async def steps(self, job_id: SupportsIndex, *, conn: AsyncConn | None = None) -> list[StepRow]:
        """Return the records of a job's steps, oldest first: what it has done, its cursors, sleeps, waits and signals."""
        number = self._settings.number(job_id)
        if number is None:
            return []
        return [step_of(row) for row in await self._rows(self._settings.text("step_list"), (number,), conn)]

    async def _signalled(self, job_id: SupportsIndex, name: str, value: Any, conn: AsyncConn | None) -> str:
        """Send a signal, and say what became of it."""
        number = self._settings.number(job_id)
        try:
            checked, text = named(f"signal {name!r}", name), values.written(f"signal {name!r}", value)
        except StepError as error:
            raise OptionError(str(error)) from None
        if number is None:
            return "missing"
        [(outcome, *_)] = await self._hinting(self._settings.text("job_signal"), (number, checked, in_ascii(text)), conn)
        return str(outcome)

    async def _rows(self, text: str, parameters: tuple[object, ...], conn: AsyncConn | None) -> Rows:
        """Run a statement that reads."""
        raise NotImplementedError

    async def _hinting(self, text: str, values: tuple[object, ...], conn: AsyncConn | None) -> Rows:
        """Run a statement that notifies."""
        raise NotImplementedError
