"""The records of a job's steps, as a client and an operator see them.

Made in the thread or event loop that has asked for them, of the rows of step_list.sql, which the caller runs on a connection of
its own. Plain values; a row is the caller's, and nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class StepRow:
    """One record of a job's steps.

    `sort` is 'step' (done, with its value), 'cursor' (how far a loop is), 'sleep' and 'wait' (up to `until`), or 'signal' (sent
    to the job). `at` is when it was written, `attempt` says by which attempt, and `took` how many seconds a step has taken.
    """

    sort: str
    name: str
    attempt: int | None
    at: datetime
    took: float | None
    until: datetime | None
    output_json: str | None

    @property
    def output(self) -> Any:
        """Return the value as dicts, lists, texts and numbers."""
        return None if self.output_json is None else msgspec.json.decode(self.output_json)


def step_of(row: Sequence[Any]) -> StepRow:
    """Make a record of a row."""
    sort, name, attempt, at, took, until, _left, output = row
    return StepRow(sort, name, attempt, at, took, until, output)
