"""What steps give back that is more than a value: a `Signal`, a `Cursor`.

Made by the job that comes to the step, in its thread or on its event loop, and its own. Plain values; the statements run
elsewhere (stepping.py). In an event loop each of them is awaited first: it is the same object afterwards, with the value.

It deliberately gives no value before that: an `await` that is missing raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from fastq.errors import StepError

T = TypeVar("T")


class _Done:
    """Something that is done already, and may be awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


DONE: Awaitable[None] = _Done()


class Awaited:
    """Something that is looked up: at once in a thread, by `await` in an event loop."""

    _looking: Awaitable[None] | None = None

    def looked_up_by(self, looking: Awaitable[None]) -> Self:
        """Take the coroutine that looks it up."""
        self._looking = looking
        return self

    def __await__(self) -> Generator[Any, Any, Self]:
        if self._looking is not None:
            looking, self._looking = self._looking, None
            yield from looking.__await__()
        return self


class Signal(Awaited, Generic[T]):
    """A signal that a job has waited for: true if it came before the timeout. `value` is its value, `at` when it was sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at: datetime | None = None
        self.found: tuple[T, ...] | None = None  # empty: the time was over

    def __bool__(self) -> bool:
        return self.came

    @property
    def came(self) -> bool:
        """Tell whether it came before the timeout."""
        return bool(self._all())

    @property
    def value(self) -> T:
        """Give its value; TimeoutError if it did not come in time."""
        found = self._all()
        if not found:
            raise TimeoutError(
                f"no signal {self.name!r} came within the timeout; ask whether it is true before you take its value"
            )
        return found[0]

    def _all(self) -> tuple[T, ...]:
        if self.found is None:
            raise StepError(f"signal {self.name!r}: expected `await job.wait_for(...)` in an event loop")
        return self.found


class Cursor(Awaited, Generic[T]):
    """How far a loop has come, `value`; `advance(to)` remembers more."""

    def __init__(self, name: str, start: T) -> None:
        self.name = name
        self.start = start
        self.found: tuple[T] | None = None
        self.move: Callable[[Cursor[T], T], Awaitable[None]] | None = None

    @property
    def value(self) -> T:
        """Give the place up to which the loop has come."""
        if self.found is None:
            raise StepError(f"cursor {self.name!r}: expected `await job.cursor(...)` in an event loop")
        return self.found[0]

    def advance(self, to: T) -> Awaitable[None]:
        """Remember that the loop has come so far; where the process stops, the job is handed back here."""
        if self.move is None:
            raise StepError(f"cursor {self.name!r}: expected `await job.cursor(...)` in an event loop")
        return self.move(self, to)
