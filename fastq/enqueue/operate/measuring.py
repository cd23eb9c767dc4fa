# Made by tools/twins.py from enqueue/operate/measuring_async.py: change that file, then run `make twins`.
"""Read the statistics, and count the jobs that live: methods of a client.

A base class of `Client` (client.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's thread.

`AsyncMeasuring` (measuring_async.py) is the same part of `AsyncClient`, and the source of this one.

The statements and their checks are those of `fastq stats` (admin/statistics/).

It deliberately counts nothing that a client enqueues: in a transaction of the caller's it does not know whether that commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fastq.admin.statistics import asked
from fastq.admin.statistics.asked import HOUR, LIVING

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.admin.session import Asking
    from fastq.admin.statistics.asked import By, Since, Step
    from fastq.admin.statistics.measured import Living, StatRow

T = TypeVar("T")


class Measuring:
    """The part of a client that is about statistics."""

    def stats(
        self,
        since: Since = HOUR,
        by: By | None = None,
        step: Step | None = None,
        *,
        queue: str | None = None,
        kind: str | None = None,
        conn: Conn | None = None,
    ) -> list[StatRow]:
        """Return the statistics of jobs: rates, failures, and percentiles of how long they waited and ran; in the order of time.

        `since`: a time with a zone, a timedelta, or seconds: the last hour. `by="queue"` or `by="kind"` has a row for each of
        them, `step="minute"`, `"hour"` or `"day"` one for each of these; without it a row is about the whole time. `queue` and
        `kind` are of those alone. Minutes are kept for six hours, hours for two weeks, days for FASTQ_STATS_DAYS: older rows are
        as long as that.
        """
        return self._asked(asked.what_was_counted(since, by, step, queue, kind), conn)

    def living(self, *, limit: int = LIVING, conn: Conn | None = None) -> list[Living]:
        """Count the living jobs of each queue by state, up to a limit: where a count has reached it, `at_least` is true."""
        return self._asked(asked.jobs_that_live(limit), conn)

    def _asked(self, asking: Asking[T], conn: Conn | None) -> T:
        """Run statements that follow one another."""
        raise NotImplementedError
