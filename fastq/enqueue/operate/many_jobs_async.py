"""Find jobs by a filter, change single ones and many, export and import them: the methods of `client.jobs` in an event loop.

An `AsyncManyJobs` is made by an `AsyncClient` (client_async.py) when it is asked for, and has nothing but the client's way to
its sessions. Its methods run in the caller's event loop. The work is that of fastq/admin/search,
fastq/admin/bulk and fastq/admin/exports.

`ManyJobs` (many_jobs.py) is the same for `Client`, and is made from this file.

With `conn` each method is part of the caller's transaction, and sees that transaction's own changes. Without, a change of single
jobs is one transaction with its record in the audit. An export and an import take no `conn`: they are many transactions. It
deliberately decides nothing.
"""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeVar, Unpack, overload

from fastq.admin.bulk import audits, operations, single
from fastq.admin.bulk.audits import AuditRow
from fastq.admin.bulk.edits import Changes, Edit
from fastq.admin.bulk.operations import OperationRow, Preview
from fastq.admin.changes import Change
from fastq.admin.exports.exporting import Export
from fastq.admin.exports.imported import Imported
from fastq.admin.exports.importing import Importing, Stored, Wanted
from fastq.admin.running.whereabouts import TIMEOUT, Stack
from fastq.admin.search import pages
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.search.pages import JobCount, JobPage
from fastq.enqueue.operate.looking_async import looked
from fastq.postgres import hints

if TYPE_CHECKING:
    from fastq.adapters.conn import AsyncConn
    from fastq.admin.session import Asking
    from fastq.jobs.registry import Registry

T = TypeVar("T")
Texts = list[str]
Changed = list[Change]
Operations = list[OperationRow]
Audit = list[AuditRow]
Batch = list[Wanted]
Ids = SupportsIndex | Iterable[SupportsIndex]
Filter = JobFilter | str


class AsyncAsks(Protocol):
    """A client's way to run statements that follow one another."""

    async def __call__(self, asking: Asking[T], conn: AsyncConn | None, *, whole: bool = False) -> T:
        """Run them."""
        ...


class AsyncManyJobs:
    """Jobs, living and finished, that are meant by a filter: `await client.jobs.list("kind:mail state:discarded since:2h")`."""

    def __init__(self, asked: AsyncAsks) -> None:
        self._asked = asked

    async def list(
        self, which: JobFilter | str = "", *, limit: int = 50, after: str | None = None, conn: AsyncConn | None = None
    ) -> JobPage:
        """Return a page of the jobs that fit, newest first.

        `after` is the cursor of a page: `page.after`, for the next one; None if nothing is left. A page comes within some two
        seconds. If that was too short to fill it, `looked_until` says how far it has looked, and the cursor goes on from there.
        """
        return await self._asked(pages.page(which, limit, after), conn)

    async def count(self, which: JobFilter | str = "", *, conn: AsyncConn | None = None) -> JobCount:
        """Count the jobs that fit, up to 10,000 and for some two seconds; `at_least` says that there may be more."""
        return await self._asked(pages.count(which), conn)

    async def complete(self, text: str, *, conn: AsyncConn | None = None) -> Texts:
        """Return the words that the last word of a filter may become: names, and values that are known without a search."""
        return await self._asked(pages.complete(text), conn)

    async def stack(self, job_id: SupportsIndex, *, timeout: float = TIMEOUT) -> Stack:  # noqa: ASYNC109 - as the blocking side has it
        """Ask the process that runs a job where it is: `text` has the calls, innermost last; or `why` says why it does not.

        It takes some tens of milliseconds. The job goes on meanwhile and notices nothing. No value of a variable is told.
        """
        return await looked(self._asked, job=operator.index(job_id), process=None, seconds=timeout)

    @overload
    async def cancel(self, which: Filter, *, by: str | None = None, conn: AsyncConn | None = None) -> OperationRow: ...
    @overload
    async def cancel(self, which: Ids, *, by: str | None = None, conn: AsyncConn | None = None) -> Changed: ...
    async def cancel(
        self, which: Filter | Ids, *, by: str | None = None, conn: AsyncConn | None = None
    ) -> OperationRow | Changed:
        """End jobs that wait, and ask the processes of running ones to end them.

        By ids: at once, and a list has the outcome of each. By a filter: an operation of the leader's, which is returned as it
        begins, and is about the jobs that are there now; `client.jobs.operation(id)` says how far it is. The audit names `by`.
        """
        return await self._change("cancel", which, by, conn)

    @overload
    async def retry(self, which: Filter, *, by: str | None = None, conn: AsyncConn | None = None) -> OperationRow: ...
    @overload
    async def retry(self, which: Ids, *, by: str | None = None, conn: AsyncConn | None = None) -> Changed: ...
    async def retry(self, which: Filter | Ids, *, by: str | None = None, conn: AsyncConn | None = None) -> OperationRow | Changed:
        """Make jobs available now: those that wait, and finished ones with their ids and one more attempt; as `cancel` does."""
        return await self._change("retry", which, by, conn)

    @overload
    async def delete(self, which: Filter, *, by: str | None = None, conn: AsyncConn | None = None) -> OperationRow: ...
    @overload
    async def delete(self, which: Ids, *, by: str | None = None, conn: AsyncConn | None = None) -> Changed: ...
    async def delete(
        self, which: Filter | Ids, *, by: str | None = None, conn: AsyncConn | None = None
    ) -> OperationRow | Changed:
        """Remove jobs for good, but those that run; as `cancel` does, by ids or by a filter."""
        return await self._change("delete", which, by, conn)

    @overload
    async def edit(
        self, which: Filter, *, by: str | None = None, conn: AsyncConn | None = None, **changes: Unpack[Changes]
    ) -> OperationRow: ...
    @overload
    async def edit(
        self, which: Ids, *, by: str | None = None, conn: AsyncConn | None = None, **changes: Unpack[Changes]
    ) -> Changed: ...
    async def edit(
        self, which: Filter | Ids, *, by: str | None = None, conn: AsyncConn | None = None, **changes: Unpack[Changes]
    ) -> OperationRow | Changed:
        """Change `queue`, `priority`, `max_attempts`, `at` or `args` of jobs that do not run; args of single ones alone.

        Args of an `Args` class are checked, and only jobs of its kind are changed; a dict is taken as it is.
        """
        return await self._edit("edit", which, changes, by, conn)

    @overload
    async def move(self, which: Filter, queue: str, *, by: str | None = None, conn: AsyncConn | None = None) -> OperationRow: ...
    @overload
    async def move(self, which: Ids, queue: str, *, by: str | None = None, conn: AsyncConn | None = None) -> Changed: ...
    async def move(
        self, which: Filter | Ids, queue: str, *, by: str | None = None, conn: AsyncConn | None = None
    ) -> OperationRow | Changed:
        """Put jobs that do not run into another queue."""
        return await self._edit("move", which, {"queue": queue}, by, conn)

    async def preview(self, verb: str, which: Filter, *, conn: AsyncConn | None = None) -> Preview:
        """Say which jobs an operation would be about: how many, up to 10,000, and the newest of them. It changes nothing."""
        return await self._asked(operations.previewing(verb, which), conn)

    async def operations(self, *, limit: int = 50, conn: AsyncConn | None = None) -> Operations:
        """Return the newest operations, and how far they are."""
        return await self._asked(operations.listing(limit), conn)

    async def operation(self, number: int, *, conn: AsyncConn | None = None) -> OperationRow | None:
        """Return an operation; None if there is none, or no longer."""
        rows = await self._asked(operations.listing(1, number), conn)
        return rows[0] if rows else None

    async def cancel_operation(self, number: int, *, conn: AsyncConn | None = None) -> bool:
        """Ask for the end of an operation: the jobs that it has changed stay so. False if it has ended, or does not exist."""
        return await self._asked(operations.cancelling(number), conn)

    async def audit(self, *, limit: int = 50, conn: AsyncConn | None = None) -> Audit:
        """Return the newest changes by operators, each with its author, its jobs, the time and the new values."""
        return await self._asked(audits.audited(limit), conn)

    async def export(self, which: Filter = "") -> AsyncIterator[str]:
        """Yield the jobs that fit as lines of JSON, each with all that it takes to enqueue it again, between a head and an end.

        Living ones come first, the oldest before the others, then finished ones. It reads some at a time, in no transaction. Args
        that are encrypted stay so.
        """
        exporting = Export(which)
        while lines := await self._asked(exporting.more(), None):
            for line in lines:
                yield line

    async def import_lines(
        self,
        lines: Iterable[str | bytes],
        *,
        registry: Registry | None = None,
        finished: bool = False,
        dry_run: bool = False,
        told: Callable[[int | str, int], object] | None = None,
    ) -> Imported:
        """Enqueue the jobs of an export that have not ended, as new jobs; say how many, and which lines are none.

        With a `registry` args are read as its workers will read them; without one they are any JSON objects. `finished`: those
        that have ended, too. `dry_run` enqueues nothing, and counts. `told` is called with the old and the new id of each job.
        Some hundred jobs at a time are one transaction; a job that was imported before is not enqueued again.
        """
        importing = Importing(registry, finished=finished, dry_run=dry_run)
        try:
            for batch in importing.batches(lines):
                stored = await self._store(importing, batch)
                importing.count(stored)
                if told is not None:
                    for old, new in stored.made:
                        told(old, new)
        finally:
            importing.report()
        return importing.told

    async def _store(self, importing: Importing, batch: Batch) -> Stored:
        try:
            return await self._asked(importing.storing(batch), None, whole=True)
        except Exception as error:
            if not hints.refused(error):
                raise
            return await self._asked(importing.storing(batch, hints=False), None, whole=True)

    async def _change(self, verb: str, which: Any, by: str | None, conn: AsyncConn | None) -> OperationRow | Changed:
        if isinstance(which, JobFilter | str):
            return await self._asked(operations.making(verb, which, "{}", by), conn)
        try:
            return await self._asked(single.changing(verb, which, by), conn, whole=True)
        except Exception as error:
            if conn is not None or not hints.refused(error):
                raise
            return await self._asked(single.changing(verb, which, by, hints=False), conn, whole=True)

    async def _edit(self, verb: str, which: Any, changes: Any, by: str | None, conn: AsyncConn | None) -> OperationRow | Changed:
        many = isinstance(which, JobFilter | str)
        edit = Edit.of(changes, many=many)
        if many:
            return await self._asked(operations.making(verb, which, edit.json(), by), conn)
        try:
            return await self._asked(single.editing(verb, which, edit, by), conn, whole=True)
        except Exception as error:
            if conn is not None or not hints.refused(error):
                raise
            return await self._asked(single.editing(verb, which, edit, by, hints=False), conn, whole=True)
