"""Workflows and their steps as rows, for programs and operators that look how far one is.

Made in the caller's thread or event loop, of the rows that a client has read. Plain values: they tell the state of one moment,
and reading them locks nothing. They deliberately change nothing: the methods of the clients do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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


def workflow_of(row: Sequence[Any]) -> WorkflowRow:
    """Make a workflow of a row of workflow_show.sql or workflow_list.sql."""
    return WorkflowRow(*row)


def step_of(row: Sequence[Any]) -> StepRow:
    """Make a step of a row of workflow_steps.sql."""
    step, name, kind, job, state, after, because = row
    return StepRow(step, name, kind, job, state, _edges(after or "[]"), _causes(because or "[]"))


_edges = msgspec.json.Decoder(tuple[tuple[int, bool], ...]).decode
_causes = msgspec.json.Decoder(tuple[tuple[int, str, str], ...]).decode
