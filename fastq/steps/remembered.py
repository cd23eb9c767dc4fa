"""Keep the records of steps in memory: for workers that are tested without a database.

Used in the threads and event loops of a test, which owns the object; one for the jobs of a test (`fastq.testing.steps`), or one
for a job that was made by hand. It answers the statements of attempt.py, by their names.

No time passes here: a sleep is over at once, and a wait with a timeout is, too, unless the test has given the signal. It
deliberately parks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fastq.errors import StepError
from fastq.steps import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.steps.through import Said, Saying

T = TypeVar("T")


class Remembered:
    """The records of some jobs, and the signals that they find."""

    def __init__(self, signals: Mapping[str, Any] | None = None) -> None:
        self.signals: dict[str, Any] = dict(signals or {})
        self._records: dict[tuple[int, str, str], str | None] = {}
        self._answers: dict[str, Callable[..., list[Sequence[Any]]]] = {
            "step_list": self._list,
            "step_note": self._note,
            "step_wait": self._wait,
        }

    def done(self, job_id: int = 1) -> dict[str, Any]:
        """Return the values of the steps that a job has done, and the places of its cursors, by name."""
        return {
            name: msgspec.json.decode(output)
            for (job, sort, name), output in self._records.items()
            if job == job_id and sort in ("step", "cursor") and output is not None
        }

    def run(self, saying: Saying[T]) -> T:
        """Answer the statements."""
        try:
            said = next(saying)
            while True:
                said = saying.send(self._answer(said))
        except StopIteration as end:
            result: T = end.value
            return result

    async def run_async(self, saying: Saying[T]) -> T:
        """Answer them in an event loop."""
        return self.run(saying)

    def _answer(self, said: Said) -> list[Sequence[Any]]:
        return self._answers[said.statement](*said.parameters)

    def _list(self, job: int) -> list[Sequence[Any]]:
        return [(sort, name, 1, None, None, None, 0.0, output) for (of, sort, name), output in self._records.items() if of == job]

    def _note(self, job: int, _claim: int, sort: str, name: str, *rest: Any) -> list[Sequence[Any]]:
        self._records[job, sort, name] = rest[-1]
        return [(1, 0.0)]

    def _wait(self, _job: int, _claim: int, name: str, _attempt: int, timeout: float | None) -> list[Sequence[Any]]:
        if name in self.signals:
            return [(1, values.written(f"signal {name!r}", self.signals[name]), datetime.now(UTC), False, None, 0)]
        if timeout is None:
            raise StepError(
                f"signal {name!r}: nobody sends one to a job that was made by hand; give it by "
                f"`with fastq.testing.steps(signals={{{name!r}: ...}})`"
            )
        return [(1, None, None, True, None, 0)]

    def parked(self, job: Any, what: str, seconds: float, signal: str | None = None, seen: int = 0) -> None:
        """Go on: no time passes."""

    def handed_back(self, job: Any, what: str) -> None:
        """Go on: there is no other process that the job could go on in."""

    def lost(self, job: Any, what: str) -> BaseException:
        """Be never called: nobody takes the job away."""
        return AssertionError(f"{what}: job {job.id} was made by hand")
