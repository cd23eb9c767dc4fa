"""Let the jobs that a test works reach the database: the jobs before them, their transactions, the records of their steps.

Used in the thread of a test, around the work of a call. Where the test works committed jobs that is what a worker process has
(work/reach.py). Where it works jobs in a transaction of its own, which no other connection sees, all of it goes over that
connection; a block of `job.transaction()` without a connection is a savepoint on it.

It deliberately leaves the connections of workers alone: one that a worker opens by itself sees what is committed.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fastq.enqueue.client import Client
from fastq.enqueue.settings import Settings
from fastq.jobs import deps
from fastq.results import transacting
from fastq.steps import through
from fastq.work.effects.transaction import Transactions
from fastq.work.steps.reaching import Reaching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.postgres.db import Connection
    from fastq.results.transacting import Record
    from fastq.steps.through import Saying
    from fastq.work.effects.transaction import JobTransaction

T = TypeVar("T")

NOWHERE = "postgresql://"
"""A URL for settings of which nothing is ever connected to."""


class Ways:
    """The ways of committed jobs: made once for a database, so that their connections are used again."""

    def __init__(self, config: Config) -> None:
        settings = Settings(config.database_url, None, config)
        self._client = Client(config.database_url, config=config)
        self._transactions = Transactions(settings)
        self._reaching = Reaching(settings)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have jobs go by them for a while."""
        with deps.using(self._client.deps), transacting.beginning_by(self._transactions), through.using(self._reaching):
            yield


class JoinedReaching(Reaching):
    """The way to the records of steps over the connection of a test."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        super().__init__(settings)
        self._connection = connection

    def run(self, saying: Saying[T]) -> T:
        """Run the statements."""
        try:
            said = next(saying)
            while True:
                said = saying.send(self._connection.run(said.statement, *said.parameters))
        except StopIteration as end:
            result: T = end.value
            return result

    async def run_async(self, saying: Saying[T]) -> T:
        """Run the statements; they block, on a connection of which nobody else waits for an answer."""
        return self.run(saying)


class JoinedTransactions(Transactions):
    """The transactions of jobs on the connection of a test, where the job names no other."""

    def __init__(self, conn: Any, settings: Settings) -> None:
        super().__init__(settings)
        self._conn = conn

    def begin(self, job: Job[Any], conn: Any, outcome: object, /) -> JobTransaction:
        """Make a transaction in which a job ends."""
        return super().begin(job, self._conn if conn is None else conn, outcome)

    def note(self, job: Job[Any], conn: Any, record: Record, /) -> JobTransaction:
        """Make a transaction in which the record of a step is written."""
        return super().note(job, self._conn if conn is None else conn, record)


@contextmanager
def joining(connection: Connection, conn: Any, config: Config) -> Iterator[None]:
    """Have jobs go over the connection of a test for a while: `connection` is ours on it, `conn` the test's own object."""
    settings = Settings(config.database_url or NOWHERE, None, config)

    def before(workflow: int, step: int) -> Sequence[Sequence[Any]]:
        return connection.run("workflow_deps", workflow, step)

    with ExitStack() as stack:
        stack.enter_context(deps.using(before))
        stack.enter_context(transacting.beginning_by(JoinedTransactions(conn, settings)))
        stack.enter_context(through.using(JoinedReaching(connection, settings)))
        yield
