"""The transactions of jobs as their workers see them: `job.transaction()`, for `with` and for `async with`; and those of steps.

Made in the thread or the event loop that executes the job; used there, once. A worker process says at its start that its jobs
make them so (work/reach.py).

Steps have blocks of their own, with their own connections: a step may begin while its job's transaction is open, and if both took
from the same few, jobs that each hold one would wait for one another's.

It deliberately holds no connection: blocks.py and blocks_async.py do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.work.effects.blocks import Blocks
from fastq.work.effects.blocks_async import AsyncBlocks
from fastq.work.effects.ending import End
from fastq.work.effects.step_end import StepEnd

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import TracebackType

    from fastq.enqueue.settings import Settings
    from fastq.jobs.job import Job
    from fastq.results.transacting import Record
    from fastq.work.effects.ending import BlockEnd


class Transactions:
    """The transactions of the jobs of one process."""

    def __init__(self, settings: Settings) -> None:
        self.archive = settings.config.archive
        self.blocks, self.step_blocks = Blocks(settings), Blocks(settings)
        self.blocks_async, self.step_blocks_async = AsyncBlocks(settings), AsyncBlocks(settings)

    def begin(self, job: Job[Any], conn: Any, outcome: object, /) -> JobTransaction:
        """Return the transaction of a job; it begins with `with`."""
        return JobTransaction(self.blocks, self.blocks_async, lambda: End(job, archive=self.archive), conn, outcome)

    def note(self, job: Job[Any], conn: Any, record: Record, /) -> JobTransaction:
        """Return the transaction of a step; its `outcome` is the value of the step."""
        return JobTransaction(self.step_blocks, self.step_blocks_async, lambda: StepEnd(job, record), conn, None)


class JobTransaction:
    """One transaction in which a job ends, or the record of a step is written."""

    def __init__(
        self, blocks: Blocks, blocks_async: AsyncBlocks, end: Callable[[], BlockEnd], conn: Any, outcome: object
    ) -> None:
        self.outcome = outcome  # the user may set it until the end
        self.conn = conn  # the user's; None: one of our own
        self._blocks = blocks
        self._blocks_async = blocks_async
        self._end = end
        self._block: AbstractContextManager[Any] | None = None
        self._awaited: AbstractAsyncContextManager[Any] | None = None

    def __enter__(self) -> Any:
        """Begin, and give the connection."""
        self._block = self._blocks.block(self, self._end())
        return self._block.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        """End the job and commit, or roll back."""
        assert self._block is not None  # `with` has entered it
        return self._block.__exit__(kind, error, trace)

    async def __aenter__(self) -> Any:
        """Begin, and give the connection."""
        self._awaited = self._blocks_async.block(self, self._end())
        return await self._awaited.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End the job and commit, or roll back."""
        assert self._awaited is not None  # `async with` has entered it
        return await self._awaited.__aexit__(kind, error, trace)
