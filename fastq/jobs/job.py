"""Hold one attempt at a job, and the exceptions that interrupt it.

A `Job` is made by the producer, once per claimed row and a batch at a time (`list(map(Job, ids, attempts, ...))`, the
hottest constructor of the project); one executor thread, or the event loop, hands it to `Worker.work`, where the user's code
reads its fields and properties (`tick`, `deps` and so on); the completer reads its outcome.

Invariants:
- Only values that nearly every worker needs are fields. The rest (kind, queue, tags ...) is looked up in the batch on demand.
  The producer's thread writes the batch before it hands out any of its jobs. Afterwards the threads that have its jobs write
  these alone: the number of attempts of a job that has got on (`allow`), `steps` and `times` by the job's row, and `timeout`,
  where a rule shortens it for a job that has a batch of its own.
- `outcome` is written by the thread that has the job when its attempt ends: the executor, or the one that takes it before its
  start or refuses it; in a `transaction`, by the thread that runs its block. `cancelled` is written by the main thread, while the
  executor has the job. Both are read by others afterwards.
- STOPPING is of the process: its main thread writes it, and a job reads it when `work` asks.
- No job is part of a reference cycle: `gc=False` keeps millions of jobs out of the collector (0.07 instead of 0.3 µs
  each, measured with 20 batches alive), and a cycle through a job would never be freed. So a batch does not refer to
  its jobs, and `outcome` never holds a live exception: its traceback leads back to the job. Failures go there as text.

It deliberately has no database: `work` decides about its job by the value that it returns or raises, or in a `transaction`, for
which a worker process says how it is made (results/transacting.py). `progress` changes nothing of it.
"""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import msgspec

from fastq.args.meta import CARRIED, DEADLINE, EMPTY, EXPIRES, REPLAY_OF, WORKFLOW, tick_of
from fastq.args.options import DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY, DEFAULT_QUEUE, Tags
from fastq.jobs.deps import Dep, Deps, given
from fastq.results import progress, transacting
from fastq.results.transacting import Transaction
from fastq.steps.stepping import Stepping

if TYPE_CHECKING:
    import psycopg

    from fastq.adapters.conn import AsyncConn, Conn

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C", bound="Conn | AsyncConn")

EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""The first and the last times that Python can say in every time zone: a day within its own first and last."""


class State(StrEnum):
    """Name the states of a job as the database does."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    RUNNING = "running"
    RETRYABLE = "retryable"
    WAITING = "waiting"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"


class Named(Protocol):
    """The part of a Kind (args/kinds.py) that a job needs."""

    @property
    def name(self) -> str:
        """Give its name in the database."""
        ...


UNKEPT, KEPT, TIED = range(3)
"""What the plain success of a job leaves: nothing; a row in the archive; the one or the other, and a word to the gatekeeper or
to the steward of workflows."""


class JobBatch(Protocol):
    """The batch that a job was claimed with, as far as the job needs it: jobs of one kind and one queue, numbered by row."""

    kind: str  # of all its jobs
    queue: str  # the same
    claim: int  # that its rows carry in the database
    timeout: float | None  # seconds that an attempt may take; None: no limit
    around: Any  # the rules around an attempt (work/shared/rules.py)
    steps: dict[int, Any] | None  # what attempts know of their steps, by row (steps/attempt.py); None: none has come to one
    times: dict[int, Any] | None  # when attempts began and ended, by row (hooks/timing.py); None: they are not timed

    @property
    def worker(self) -> Any:
        """Give the worker of the kind, None if it is not known here."""
        ...

    @property
    def work(self) -> Any:
        """Give the worker's `work`, looked up once."""
        ...

    @property
    def ends(self) -> int:
        """Say what a plain success of these jobs leaves: one of UNKEPT, KEPT and TIED."""
        ...

    @property
    def priorities(self) -> Sequence[int]:
        """Give the priority by row."""
        ...

    @property
    def max_attempts(self) -> Sequence[int]:
        """Give the number of attempts allowed by row."""
        ...

    def created_at(self, row: int, /) -> datetime:
        """Say when the job was enqueued."""
        ...

    def tags(self, row: int, /) -> tuple[str, ...]:
        """Give the job's tags."""
        ...

    def meta(self, row: int, /) -> Mapping[str, Any]:
        """Give the values that features keep with the job."""
        ...

    def allow(self, row: int, attempts: int, /) -> None:
        """Take the number of attempts that the job's row allows by now, since the job has got on."""
        ...


STOPPING = threading.Event()
"""Set by the watchdog, in the main thread of a worker process, when the process was told to stop."""


class Job(Stepping, msgspec.Struct, Generic[A], eq=False, gc=False):
    """One attempt at a job; the argument of `Worker.work`.

    To read: `id`, `attempt` (from 1), `args`, `kind`, `queue`, `priority`, `max_attempts`, `tags`, `created_at`, `tick` (of a
    periodic job), `workflow`, `workflow_step` and `deps` (of a step of a workflow), `replay_of` (the discarded job that it
    repeats), `carried` (values that hooks gave it when it was enqueued), `meta` (values that features of fastq keep with it),
    `expires` and `deadline` (it does not start after the one, and is to have ended by the other), `cancelled`: true once it is
    to end, `stopping`: true once its process is. To call: `progress`; `transaction`, in which it ends with the rows that you
    write; `step`, `step_transaction`, `cursor`, `sleep`, `sleep_until` and `wait_for`, which are remembered across its attempts.
    `Job.of(args)` makes one for a test. The other fields are fastq's own.
    """

    id: int
    attempt: int
    args: A
    row: int
    batch: JobBatch
    outcome: object = None
    cancelled: bool = False
    replay_of = REPLAY_OF

    expires, deadline = EXPIRES, DEADLINE

    @classmethod
    def of(
        cls,
        args: B,
        *,
        id: int = 1,  # noqa: A002 - the field's name
        attempt: int = 1,
        kind: "Named | str | None" = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        tags: Tags | None = None,
        created_at: datetime | None = None,
        deps: Mapping[str, Any] | None = None,
        workflow: int | None = None,
        workflow_step: int | None = None,
        deadline: datetime | None = None,
        stopping: bool = False,
    ) -> "Job[B]":
        """Make a job without a database, to test a worker: `SortWorker().work(Job.of(SortArgs(["b", "a"])))`.

        `kind`, a Kind or its name, is needed for args of a class that declares none. Options that are not given are as in
        `enqueue`: the kind's, or the default.

        `deps` makes it a step of a workflow: the outputs of the jobs before it, by the names of their steps. A job before it
        that has ended otherwise is given as `Dep(job=1, state="discarded", output=None)`. Without `workflow_step` it is the
        step behind those; `workflow` alone makes the job of a callback.
        """
        of: Any = kind or getattr(type(args), "__fastq_kind__", None)
        named, stated = (of, None) if isinstance(of, str) else (getattr(of, "name", ""), of)
        alone = _Alone(
            named,
            queue or getattr(stated, "queue", None) or DEFAULT_QUEUE,
            priority or getattr(stated, "priority", None) or DEFAULT_PRIORITY,
            max_attempts or getattr(stated, "max_attempts", None) or DEFAULT_MAX_ATTEMPTS,
            tuple(getattr(stated, "tags", ()) if tags is None else tags),
            created_at or datetime.now(UTC),
        )
        if deps is not None or workflow_step is not None:
            alone.deps = given(deps or {})
            workflow_step = len(alone.deps) if workflow_step is None else workflow_step
            workflow = 1 if workflow is None else workflow
        if workflow is not None:
            alone.kept[WORKFLOW.name] = [workflow] if workflow_step is None else [workflow, workflow_step]
        alone.stopping = stopping
        if deadline is not None:
            alone.kept[DEADLINE.name] = DEADLINE.settle(deadline, {})
        return Job(id, attempt, args, 0, alone)

    @property
    def kind(self) -> str:
        """Name the job's kind."""
        return self.batch.kind

    @property
    def queue(self) -> str:
        """Name the queue that the job was claimed from."""
        return self.batch.queue

    @property
    def priority(self) -> int:
        """Give the job's priority, 1 (first) to 4."""
        return self.batch.priorities[self.row]

    @property
    def max_attempts(self) -> int:
        """Give the number of attempts after which a failing job is discarded."""
        return self.batch.max_attempts[self.row]

    @property
    def created_at(self) -> datetime:
        """Say when the job was enqueued, by the database's clock."""
        return self.batch.created_at(self.row)

    @property
    def tags(self) -> tuple[str, ...]:
        """Give the job's tags."""
        return self.batch.tags(self.row)

    @property
    def meta(self) -> Mapping[str, Any]:
        """Give the values that features keep with the job (args/meta.py), to read; empty if there are none. It is fastq's own."""
        kept = self.batch.meta(self.row)
        return MappingProxyType(kept) if kept else EMPTY

    @property
    def carried(self) -> Mapping[str, Any]:
        """Give the values by name that hooks have given the job when it was enqueued; empty if there are none."""
        carried: dict[str, Any] | None = self.meta.get(CARRIED.name)
        return MappingProxyType(carried) if carried else EMPTY

    @property
    def workflow(self) -> int | None:
        """Give the workflow that the job is a step of, or that has called it; None for any other job."""
        of: list[int] = self.meta.get(WORKFLOW.name) or []
        return of[0] if of else None

    @property
    def workflow_step(self) -> int | None:
        """Give the number of the job's step in its workflow; None if it is none."""
        of: list[int] = self.meta.get(WORKFLOW.name) or []
        return of[1] if len(of) > 1 else None

    @property
    def deps(self) -> Deps:
        """Give the jobs that this one ran after, by the names of their steps; they are read when they are asked for."""
        return Deps(self.workflow, self.workflow_step, self.batch.deps if isinstance(self.batch, _Alone) else None)

    @overload
    def transaction(
        self, *, outcome: object = None
    ) -> "Transaction[psycopg.Connection[tuple[Any, ...]], psycopg.AsyncConnection[tuple[Any, ...]]]": ...
    @overload
    def transaction(self, conn: C, *, outcome: object = None) -> Transaction[C, C]: ...
    def transaction(self, conn: Any = None, *, outcome: object = None) -> Transaction[Any, Any]:
        """Have this job end in one transaction with what is written there: `with job.transaction() as conn:`.

        `conn`: a connection or session of yours; without one it is a psycopg connection to fastq's database. At the end of the
        block the job ends as if `work` had returned `outcome`, and all is committed. If the job was taken away from this
        process meanwhile, nothing is written and JobLost is raised. docs/effects-once.md has the rules.
        """
        return transacting.begin(self, conn, outcome)

    def progress(self, fraction: float, text: str = "") -> None:
        """Tell how far the job is, from 0 to 1, and what it is at: `client.progress(id)` shows it, within a second.

        It takes microseconds and never waits, so it may be called for each row, in an event loop too.
        """
        progress.note(self.id, self.attempt, fraction, text)

    @property
    def stopping(self) -> bool:
        """Tell whether the process was told to stop: a long job may come to a good end within the grace."""
        return self.batch.stopping if isinstance(self.batch, _Alone) else STOPPING.is_set()

    @property
    def tick(self) -> datetime | None:
        """Give the time for which a periodic job was enqueued, in UTC; None for any other job."""
        return tick_of(self.tags)


class _Alone:
    """The batch of a job that was made by hand: no worker, no claim."""

    claim = 0
    ends = 0
    worker: Any = None
    work: Any = None
    timeout: float | None = None
    around: Any = ()
    steps: dict[int, Any] | None = None
    times: dict[int, Any] | None = None
    stopping = False
    deps: dict[str, Dep] | None = None

    def __init__(
        self,
        kind: str,
        queue: str,
        priority: int,
        max_attempts: int,
        tags: tuple[str, ...],
        created_at: datetime,
    ) -> None:
        self.kind = kind
        self.queue = queue
        self.priorities = (priority,)
        self.max_attempts = (max_attempts,)
        self._tags = tags
        self._created_at = created_at
        self.kept: dict[str, Any] = {}

    def created_at(self, row: int, /) -> datetime:  # noqa: ARG002 - JobBatch's signature
        return self._created_at

    def tags(self, row: int, /) -> tuple[str, ...]:  # noqa: ARG002 - the same
        return self._tags

    def meta(self, row: int, /) -> Mapping[str, Any]:  # noqa: ARG002 - the same
        return self.kept

    def allow(self, row: int, attempts: int, /) -> None:  # noqa: ARG002 - the same
        self.max_attempts = (attempts,)


class JobInterrupt(BaseException):
    """Raised *into* the user's code by fastq.

    Not an `Exception`: a worker's `except Exception: log and go on` must not swallow its own timeout. `finally` and
    `with` run as usual. Code that catches it for cleaning up must raise it again.
    """


class JobTimeout(JobInterrupt):
    """The attempt took longer than its worker's `timeout`; it counts as failed."""


class JobCancelled(JobInterrupt):
    """The job was cancelled, or the process stops and does not wait any longer."""


class JobLost(JobInterrupt):
    """The job was taken away from this process before its transaction could end it; nothing of that transaction is written.

    It was given back or ended by somebody else: rescued, say, since the process seemed dead. The attempt does not count, and
    nothing that it still returns or raises does.
    """
