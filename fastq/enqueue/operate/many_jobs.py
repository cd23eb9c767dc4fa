# Made by tools/twins.py from enqueue/operate/many_jobs_async.py: change that file, then run `make twins`.
"""Find jobs by a filter: the methods of `client.jobs`.

An `ManyJobs` is made by a `Client` (client.py) when it is asked for, and has nothing but the client's way to its
sessions. The work is that of fastq/admin/search.

`AsyncManyJobs` (many_jobs_async.py) is the same for `AsyncClient`, and the source of this one.

With `conn` each method is part of the caller's transaction, and sees that transaction's own changes. It deliberately decides
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from fastq.admin.search import pages
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.search.pages import JobCount, JobPage

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.admin.session import Asking

T = TypeVar("T")
Texts = list[str]


class Asks(Protocol):
    """A client's way to run statements that follow one another."""

    def __call__(self, asking: Asking[T], conn: Conn | None) -> T:
        """Run them."""
        ...


class ManyJobs:
    """Jobs, living and finished, that are meant by a filter: `client.jobs.list("kind:mail state:discarded since:2h")`."""

    def __init__(self, asked: Asks) -> None:
        self._asked = asked

    def list(
        self, which: JobFilter | str = "", *, limit: int = 50, after: str | None = None, conn: Conn | None = None
    ) -> JobPage:
        """Return a page of the jobs that fit, newest first.

        `after` is the cursor of a page: `page.after`, for the next one; None if nothing is left. A page comes within some two
        seconds. If that was too short to fill it, `looked_until` says how far it has looked, and the cursor goes on from there.
        """
        return self._asked(pages.page(which, limit, after), conn)

    def count(self, which: JobFilter | str = "", *, conn: Conn | None = None) -> JobCount:
        """Count the jobs that fit, up to 10,000 and for some two seconds; `at_least` says that there may be more."""
        return self._asked(pages.count(which), conn)

    def complete(self, text: str, *, conn: Conn | None = None) -> Texts:
        """Return the words that the last word of a filter may become: names, and values that are known without a search."""
        return self._asked(pages.complete(text), conn)
