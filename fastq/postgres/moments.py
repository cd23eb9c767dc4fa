"""Read times of the database that Python has none for: before the year 1, after 9999, and infinity.

Used by every session of ours that reads rows as Python values, in the thread that owns it. Postgres' times go from 4713 BC to
294276 AD, and a row may come from anybody: one such time would make each list unreadable in which it stands. It is read as
EARLIEST or LATEST of job.py, which every time zone can express; so no time that comes from here has to be guarded where it is
converted or printed.

It keeps nothing, and deliberately does not report that the time was another: Python could do nothing more with the true one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.datetime import TimestamptzLoader

from fastq.jobs.job import EARLIEST, LATEST

if TYPE_CHECKING:
    from datetime import datetime


class MomentLoader(TimestamptzLoader):
    """Make a datetime of any timestamptz."""

    def load(self, data: Any) -> datetime:
        """Read it."""
        try:
            moment = super().load(data)
        except (psycopg.DataError, OverflowError, ValueError):
            text = bytes(data)
            return EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else LATEST
        return min(max(moment, EARLIEST), LATEST)


def read_all(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Have a session of ours read every time."""
    connection.adapters.register_loader("timestamptz", MomentLoader)
