"""Workflows and their steps as rows, for programs and operators that look how far one is; and why a step waits, in words.

Made in the caller's thread or event loop, of the rows that a client has read, and the caller's from then on. Plain values: they
tell the state of one moment, and reading them locks nothing. They deliberately change nothing: the methods of the clients do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class Progress(StrEnum):
    """Name the states of a workflow: running; or, since all of its jobs have ended, the worst of their states."""

    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """One workflow: how many steps it has, and how many of their jobs have ended in which state."""

    id: int
    name: str
    steps: int
    completed: int
    cancelled: int
    discarded: int
    created_at: datetime
    cancelled_at: datetime | None  # its cancellation was asked for
    ended_at: datetime | None

    @property
    def ended(self) -> int:
        """Count the steps that have ended."""
        return self.completed + self.cancelled + self.discarded

    @property
    def state(self) -> Progress:
        """Say whether it runs, or how it has ended."""
        if self.ended_at is None:
            return Progress.RUNNING
        if self.discarded:
            return Progress.DISCARDED
        return Progress.CANCELLED if self.cancelled else Progress.COMPLETED


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step. `state` is that of its job; None where that has ended and the leader has not counted it yet."""

    step: int
    name: str | None
    kind: str
    job: int
    state: str | None
    after: tuple[tuple[int, bool], ...]  # the steps before it, each with whether this one runs however that ends
    because: tuple[tuple[int, str, str], ...]  # the steps that have cancelled it, the nearest first: job, name or number, state


WHICH = {
    None: "which has ended",  # and the leader has not counted it yet
    "running": "which runs",
    "retryable": "which waits for its next attempt",
    "waiting": "which waits itself",
}
"""The words for a job that another one waits for, by its state; a job in any other state is told by that."""

NEAREST = 2
"""Causes of a cancellation that a sentence names, beside the first of all: `fastq jobs show` has the others."""


class Placed(NamedTuple):
    """The place of a job among the others of its workflow: the column `step` of job_why.sql."""

    workflow: int
    step: str  # its name, or its number
    unmet: int  # edges from steps that have not ended
    fate: str | None  # 'go', 'cancel': the leader is to do that with it
    before: list[tuple[int, str, str | None]]  # the first of the jobs that it waits for: id, step, state (None: it has ended)
    because: list[tuple[int, str, str]]  # the jobs that have cancelled it, the nearest first: id, step, state

    def waits(self) -> str:
        """Say for which jobs its job waits."""
        if self.fate == "cancel":
            return f"waits for a leader, which cancels it in workflow {self.workflow}: {self.causes()}"
        if self.fate == "go" or not self.unmet:
            return f"waits for a leader, which lets it go: all jobs before it in workflow {self.workflow} have ended"
        named = [f"job {job} (step {step}), {WHICH.get(state, f'which is {state}')}" for job, step, state in self.before]
        if more := self.unmet - len(named):
            named.append(f"{more:,} more" if named else f"{more:,} jobs")
        listed = ", and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
        return f"waits for {listed}{', ' if self.before else ' '}in workflow {self.workflow}"

    def causes(self) -> str:
        """Say because of which jobs it was cancelled."""
        told = [f"job {job} (step {step}) was {state}" for job, step, state in self.because]
        if len(told) > NEAREST + 1:
            return f"{', because '.join(told[:NEAREST])}, and so on, because {told[-1]}"
        return ", because ".join(told)


read_placed = msgspec.json.Decoder(Placed).decode


def workflow_of(row: Sequence[Any]) -> WorkflowRow:
    """Make a workflow of a row of workflow_show.sql or workflow_list.sql."""
    return WorkflowRow(*row)


def step_of(row: Sequence[Any]) -> StepRow:
    """Make a step of a row of workflow_steps.sql."""
    step, name, kind, job, state, after, because = row
    return StepRow(step, name, kind, job, state, _edges(after or "[]"), _causes(because or "[]"))


_edges = msgspec.json.Decoder(tuple[tuple[int, bool], ...]).decode
_causes = msgspec.json.Decoder(tuple[tuple[int, str, str], ...]).decode
