"""Find jobs over a connection of the caller's, for an operator: the functions of pages.py, run at once.

They run in the thread that calls them: the main thread of `fastq jobs`, or a thread of a program that uses `fastq.admin.search`.
They keep nothing; the connection is the caller's (admin/session.py). They deliberately open no transaction: each statement is
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.admin.search import pages
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.session import answered

if TYPE_CHECKING:
    from fastq.admin.search.pages import JobCount, JobPage
    from fastq.postgres.db import Connection


def list_jobs(connection: Connection, given: JobFilter | str = "", *, limit: int = 50, after: str | None = None) -> JobPage:
    """Return the next jobs that fit, living and finished, newest first."""
    return answered(connection, pages.page(given, limit, after))


def count_jobs(connection: Connection, given: JobFilter | str = "") -> JobCount:
    """Count the jobs that fit, up to 10,000 and for some seconds."""
    return answered(connection, pages.count(given))


def complete_words(connection: Connection, text: str) -> list[str]:
    """Return the words that the last word of a filter may become."""
    return answered(connection, pages.complete(text))
