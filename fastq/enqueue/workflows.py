# Made by tools/twins.py from enqueue/workflows_async.py: change that file, then run `make twins`.
"""Enqueue workflows, add to them, look at them, wait for them, cancel and retry them: methods of a client.

A base class of `Client` (client.py), which makes and owns the settings and the sessions that are used here; this class
keeps no state. Its methods run in the caller's thread.

`AsyncWorkflows` (workflows_async.py) is the same part of `AsyncClient`, and the source of this one.

The statements of each change are in flows.py; the rows that are read, in admin/workflows.py. The rows of steps are written by the
statements of flows.py and by the leader's steward; here they are only read.

It deliberately listens to nothing: a wait looks at the workflow's one row again and again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastq.admin.workflows import Progress, StepRow, WorkflowRow, step_of, workflow_of
from fastq.args.kinds import Args
from fastq.backoff import Backoff
from fastq.enqueue.flows import Adding, Batch, Cancelling, Retrying, Started
from fastq.enqueue.items import Enqueue
from fastq.enqueue.settings import MAX_ID
from fastq.errors import WorkflowError
from fastq.postgres.pool import in_threads
from fastq.workflows.steps import Workflow, group

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.adapters.library import Rows
    from fastq.enqueue.sessions import Sessions
    from fastq.enqueue.settings import Settings

FIRST_LOOK, LONGEST_LOOK = 0.02, 1.0
"""Seconds between two looks of a wait, at first and at most: a look reads one row. Guesses."""


class Workflows:
    """The part of a client that is about workflows."""

    _settings: Settings

    def enqueue_workflow(self, flow: Workflow | Any, *, conn: Conn | None = None, wake: bool = True) -> Started:
        """Enqueue all jobs of a workflow or none; return its id, and those of its jobs.

        A job that runs after others waits until these have ended, and is cancelled if one of them is cancelled, discarded or
        deleted, unless it runs after that one's `ended`. A delay or a time of such a job counts from when it may go.
        """
        return self._here().run_steps(Adding(flow, self._settings), conn, wake=wake)

    @contextmanager
    def batch(
        self,
        name: str = "batch",
        *,
        on_success: Args | Enqueue | None = None,
        on_finish: Args | Enqueue | None = None,
        on_discard: Args | Enqueue | None = None,
        conn: Conn | None = None,
        wake: bool = True,
    ) -> Iterator[Batch]:
        """Collect jobs, and enqueue all of them when the block ends; none if it raises. They run beside each other.

        The callbacks are jobs, each enqueued once: when all jobs are completed, when all have ended, and when the first of them
        is discarded.
        """
        batch = Batch(Workflow(name, on_success=on_success, on_finish=on_finish, on_discard=on_discard))
        yield batch
        batch.started = self.enqueue_workflow(batch.flow, conn=conn, wake=wake)

    def add_to_workflow(
        self,
        workflow_id: int | None,
        items: Workflow | Iterable[Args | Enqueue],
        *,
        after: Iterable[str | int] = (),
        conn: Conn | None = None,
        wake: bool = True,
    ) -> Started:
        """Add jobs to a workflow that runs: a job adds to its own, which cannot end meanwhile, as `job.workflow`.

        `after` names steps that are there already, or gives their numbers, such as `job.workflow_step`: the first of the new
        jobs run after these. WorkflowError if the workflow has ended or was cancelled, or the job is in none (None).
        """
        if workflow_id is None:
            raise WorkflowError("workflow None: expected the id of a workflow; job.workflow is None in a job that is in none")
        flow = items if isinstance(items, Workflow) else group(*items)
        adding = Adding(flow, self._settings, self._settings.number(workflow_id) or 0, after)
        return self._here().run_steps(adding, conn, wake=wake)

    def cancel_workflow(self, workflow_id: int, *, conn: Conn | None = None) -> int:
        """End the jobs of a workflow that wait, and have the running ones end; return how many these were."""
        change = Cancelling(self._settings.number(workflow_id) or 0)
        return self._here().run_steps(change, conn, wake=True)

    def retry_workflow(self, workflow_id: int, what: str = "failed", *, conn: Conn | None = None) -> int:
        """Run the jobs of a workflow once more that were discarded, or cancelled by somebody; return how many these are.

        With `what="failed_and_downstream"` also those that were cancelled because of them. A job waits again for those before it.
        """
        change = Retrying(self._settings.number(workflow_id) or 0, what)
        return self._here().run_steps(change, conn, wake=True)

    def workflow(self, workflow_id: int | None, *, conn: Conn | None = None) -> WorkflowRow | None:
        """Return how far a workflow is, such as `job.workflow`; None if there is none, or no longer."""
        number = None if workflow_id is None else self._settings.number(workflow_id)
        rows = self._rows(self._settings.text("workflow_show"), (number or 0,), conn)
        return workflow_of(rows[0]) if rows else None

    def workflows(
        self, *, state: str | None = None, limit: int = 50, before: int = MAX_ID, conn: Conn | None = None
    ) -> list[WorkflowRow]:
        """Return the newest workflows: of one state, with ids below `before`."""
        wanted = None if state is None else Progress(state).value
        return [workflow_of(row) for row in self._rows(self._settings.text("workflow_list"), (before, wanted, limit), conn)]

    def workflow_steps(self, workflow_id: int, *, start: int = 0, limit: int = 10_000, conn: Conn | None = None) -> list[StepRow]:
        """Return the steps of a workflow in their order."""
        parameters = (self._settings.number(workflow_id) or 0, start, limit)
        return [step_of(row) for row in self._rows(self._settings.text("workflow_steps"), parameters, conn)]

    def wait_for_workflow(
        self,
        workflow_id: int,
        *,
        timeout: float | None = None,
    ) -> WorkflowRow:
        """Return a workflow when all of its jobs have ended, in whatever state.

        TimeoutError after so many seconds; WorkflowError if there is no such workflow, or it is deleted meanwhile. A job that
        waits for its own workflow waits for itself, so for ever: it adds a step that runs after the others instead.
        """
        pauses, end = Backoff(FIRST_LOOK, LONGEST_LOOK), math.inf if timeout is None else time.monotonic() + timeout
        while True:
            found = self.workflow(workflow_id)
            if found is None:
                raise WorkflowError(f"there is no workflow {workflow_id}, or no longer: nothing to wait for")
            if found.ended_at is not None:
                return found
            if time.monotonic() >= end:
                raise TimeoutError(
                    f"workflow {workflow_id} has not ended in {timeout} s: {found.ended} of {found.steps} jobs have"
                )
            in_threads.sleep(max(0.0, min(pauses.next(), end - time.monotonic())))

    def deps(self, workflow_id: int, step: int) -> Rows:
        """Return the jobs before a step of a workflow, as `job.deps` reads them: name or number, id, state, output as JSON."""
        return self._rows(self._settings.text("workflow_deps"), (workflow_id, step), None)

    def _here(self) -> Sessions:
        """Return the sessions of this process."""
        raise NotImplementedError

    def _rows(self, text: str, parameters: tuple[object, ...], conn: Conn | None) -> Rows:
        """Run a statement that reads."""
        raise NotImplementedError
