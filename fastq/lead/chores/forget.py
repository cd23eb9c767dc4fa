"""Forget: delete rows that say nothing any more, of queues, leases, the guard `once`, and the progress and the logs of jobs.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. A queue's row says whether it is paused;
a row that says nothing goes after a day, if there is no job in the queue and no living process works it. A paused queue stays
paused for ever: only people resume it.

A lease's row stays when it is released, for its term; those of users, singletons and domains go when nobody has held them for a
week, so that a name made for one occasion does not stay for ever. Terms grow all the same, by the clock.

Items that singletons and others noted as done (fastq.once) are kept for FASTQ_ONCE_DAYS. There is no index by their age, which
would cost each note; a walk through the table, a window at a time, finds the old ones. So it is with the notes of how far jobs
are: those of jobs that live no longer go after an hour. And so with the records of steps: a walk notes which of them are of jobs
that neither live nor are dead letters, and they go when the archive has dropped the last day on which the job may have ended, for
up to then somebody may retry the job and have it go on.

Job logs are kept for FASTQ_JOB_LOG_DAYS. An index has them by their age, and each walk goes on where the last one has ended, so
that none of them steps over the entries of rows that are gone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.jobs.retention import Retention

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

UNUSED = 86_400.0
"""Seconds that a queue's row stays after it was made: a guess; it costs nothing."""

BATCH = 100
"""Queues forgotten by one statement; for each it asks whether there are jobs."""

WINDOW = 5_000
"""Rows of the guard, of notes of progress, or of records of steps that one statement looks at: some 10 ms."""

INTERVAL = 3_600.0
"""Seconds between looks and walks: both are for rows that matter after days."""

UNHELD = 7 * 86_400.0
"""Seconds that a lease has been nobody's until its row goes: a guess. It is also by how much the server's clock may be set back
without a name getting a term that it has had."""

TOLD = 3_600.0
"""Seconds that the last note of a job that has ended stays: so that a person sees how far it came. A guess."""

SHEETS = 1_000
"""Rows of job logs that one statement deletes: 8 MB at most, some 20 ms. A guess."""

LEASES = 500
"""Leases that one statement looks at: some milliseconds, for which a candidate finds a lease that is being forgotten locked."""

DAY = 86_400.0
"""Seconds. The archive drops a day when all of it is old enough, so a job may be there for a day longer than the rules say."""

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Forget:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "forget"

    def __init__(self) -> None:
        self._lease: str | None = None  # the last lease looked at; None: no walk through them is under way
        self._item: tuple[str, str] | None = None  # the last item looked at; the same
        self._job: int | None = None  # the last job whose note was looked at; the same
        self._step: tuple[int, str, str] | None = None  # the last record of a step looked at; the same
        self._prunes = False  # whether a walk through the logs is under way
        self._log_at: Any = "-infinity"  # the time of the last sheet of a log that was deleted; a walk begins there
        self._again = 0.0  # monotonic time of the next look

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Forget queues by the batch, then look at leases and at items by the window."""
        if self._lease is not None:
            return self._look_at_leases(site, self._lease)
        if self._item is not None:
            return self._look_at_items(site, self._item)
        if self._job is not None:
            return self._look_at_notes(site, self._job)
        if self._step is not None:
            return self._look_at_steps(site, self._step)
        if self._prunes:
            return self._prune_logs(site)
        (gone,) = site.write("queue_forget", UNUSED, BATCH)
        site.changed += gone
        if gone < BATCH:
            self._lease = ""
            self._again = time.monotonic() + INTERVAL
        return NAP

    def _look_at_leases(self, site: Site, after: str) -> float:
        last, looked, gone = site.write("lease_forget", after, LEASES, UNHELD)
        site.changed += gone
        self._lease, self._item = (last, None) if looked == LEASES else (None, ("", ""))
        return NAP

    def _look_at_items(self, site: Site, after: tuple[str, str]) -> float:
        name, item, looked, gone = site.write("once_forget", *after, WINDOW, site.config.once_days)
        site.changed += gone
        self._item, self._job = ((name, item), None) if looked == WINDOW else (None, 0)
        return NAP

    def _look_at_notes(self, site: Site, after: int) -> float:
        last, looked, gone = site.write("progress_forget", after, WINDOW, TOLD)
        site.changed += gone
        self._job, self._step = (last, None) if looked == WINDOW else (None, (0, "", ""))
        return NAP

    def _look_at_steps(self, site: Site, after: tuple[int, str, str]) -> float:
        days = Retention.parse(site.config.keep).whole_days(site.config.archive_days) + 1
        *last, looked, gone = site.write("step_forget", *after, WINDOW, days * DAY)
        site.changed += gone
        job, sort, name = last
        self._step, self._prunes = ((job, sort, name), False) if looked == WINDOW else (None, True)
        return NAP

    def _prune_logs(self, site: Site) -> float:
        last, gone = site.write("log_prune", self._log_at, SHEETS, site.config.job_log_days)
        site.changed += gone
        self._log_at = last or self._log_at
        self._prunes = gone == SHEETS
        return NAP if self._prunes else max(self._again - time.monotonic(), NAP)

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
