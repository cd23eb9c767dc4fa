"""Return the logs of jobs, and follow them while the jobs run: methods of a client in an event loop.

A base class of `AsyncClient` (client_async.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's event loop. A `Reading` belongs to one call.

`JobLogs` (job_logs.py) is the same part of `Client`, and is made from this file.

To follow a log is to ask for its new sheets, by the primary key, twice a second: worker processes write each two seconds while a
job runs, and soon after an attempt has ended. When the job has ended, its log is there a moment later; a sheet of each attempt
says that it is the last one. A call keeps what it has read in values of its own. It deliberately waits no longer than GRACE for
that: a process that was killed wrote no last sheet.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fastq.errors import DatabaseUnavailable, JobNotFound
from fastq.joblogs.reading.log_lines import LogLine, LogSize, Reading
from fastq.postgres import db
from fastq.postgres.pool import in_loop

if TYPE_CHECKING:
    from fastq.adapters.library import Rows
    from fastq.enqueue.settings import Settings

LOOK = 0.5
"""Seconds between two looks at the log of a running job: nobody sees the difference to a quarter of a write's interval."""

GRACE = 3.0
"""Seconds after the end of a job for which a look for its last sheet goes on: longer than a write's interval."""

SETTLED = 0.3
"""Seconds after which a last sheet that is there is taken for the last of all: as an attempt that does not count has one, too."""

AWAY = 1.0
"""Seconds between two looks while the database is away: a restart takes about a second."""

PAGE = 200
"""Sheets that one statement reads: 1.6 MB at most."""

NEWEST = 100_000
"""Sheets that are counted for the sizes: some tenths of a second."""


class AsyncJobLogs:
    """The part of a client that is about the logs of jobs."""

    _settings: Settings

    async def logs(self, job_id: int, *, attempt: int | None = None) -> list[LogLine]:
        """Return the records and the prints of a job so far, attempt by attempt, or those of one attempt.

        An empty list if there are none, or none are kept: its kind has no `logs = True`, or FASTQ_JOB_LOG_DAYS are over.
        """
        number = self._settings.number(job_id)
        return [] if number is None else await self._new_lines(number, attempt, Reading())

    async def follow_logs(self, job_id: int, *, attempt: int | None = None) -> AsyncIterator[LogLine]:
        """Yield the records and the prints of a job, from its beginning on, as they are written; end when the job has ended.

        With `attempt` the lines of that one alone. JobNotFound if there is no such job, and no log of it. While the database is
        away it goes on looking.
        """
        number = self._settings.number(job_id)
        if number is None:
            raise JobNotFound([job_id])
        reading, bell = Reading(), in_loop.Bell()
        gone_at: float | None = None
        last: int | None = None  # the number of its last attempt, once it has ended
        told = reached = False
        while True:
            try:
                if gone_at is None and not (await self._ask("job_lives", (number,)))[0][0]:
                    ended = await self._ask("job_ended", ([number],))
                    last, gone_at = (int(ended[0][3]) if ended else None), time.monotonic()
                lines = await self._new_lines(number, attempt, reading)
            except (*db.Lost, DatabaseUnavailable):
                if not reached:
                    raise
                await bell.wait(AWAY)
                continue
            reached, told = True, told or bool(lines)
            for line in lines:
                yield line
            if gone_at is not None:
                since = time.monotonic() - gone_at
                if last is None and not told and since > SETTLED:
                    raise JobNotFound([number])
                if since > GRACE or (since > SETTLED and last is not None and reading.has_ended(attempt or last)):
                    return
            await bell.wait(LOOK if gone_at is None else SETTLED / 2)

    async def log_sizes(self) -> list[LogSize]:
        """Return how much the logs of jobs take, by kind, largest first; the newest are counted, see `more`."""
        return [LogSize(*row) for row in await self._ask("log_sizes", (NEWEST,))]

    async def _new_lines(self, job_id: int, attempt: int | None, reading: Reading) -> list[LogLine]:
        """Read on from where the reading is."""
        lines: list[LogLine] = []
        while True:
            rows = await self._ask("log_read", (job_id, *reading.seen(), attempt, PAGE))
            lines += reading.lines(rows)
            if len(rows) < PAGE:
                return lines

    async def _ask(self, name: str, parameters: tuple[Any, ...]) -> Rows:
        """Run a statement that reads."""
        raise NotImplementedError
