"""The jobs that a step of a workflow ran after, as its own job sees them: `job.deps["fetch"].output`.

Read in the thread that has the job, from the database, when they are asked for: an output is kept with its step, once, and is
copied into no args. A worker process says at its start how to read them (`use`, called by its main thread before any other thread
runs; read by executors). A `Deps` belongs to its job, and keeps the answer. In an event loop `await job.deps.read()` comes first,
since reading blocks.

Invariant: a job sees the jobs of its own edges alone. It deliberately has no connection of its own. A job that a test has made
is given the jobs before it (`given`), and reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import msgspec

from fastq.args.faults import as_known, endless_number
from fastq.errors import FastqError, OptionError

Read = Callable[[int, int], Sequence[Sequence[Any]]]
"""A function of a workflow and a step: of each job before it the name or number of its step, its id, state, and output as
JSON."""


class Dep(NamedTuple):
    """A job that has ended before this one: its id, its state, and the value that its `work` returned, as plain values."""

    job: int
    state: str | None  # None: it had ended, and runs once more
    output: Any


_read: Read | None = None  # written by `use`


def use(read: Read | None) -> None:
    """Say how this process reads them."""
    global _read  # noqa: PLW0603 - one way per process, like the twin of the codec
    _read = read


@contextmanager
def using(read: Read) -> Iterator[None]:
    """Have them read so for a while: in a test."""
    before = _read
    use(read)
    try:
        yield
    finally:
        use(before)


def given(outputs: Mapping[str, Any]) -> dict[str, Dep]:
    """Make the jobs before a step for a test, of their outputs by name; a value that is a `Dep` stays as it is.

    An output is the value that a worker would read: it has become JSON in between. OptionError if it cannot.
    """
    made: dict[str, Dep] = {}
    for job, (name, output) in enumerate(outputs.items(), 1):
        try:
            made[name] = output if isinstance(output, Dep) else Dep(job, "completed", _plain(output))
        except (TypeError, ValueError) as error:
            raise OptionError(f"deps[{name!r}]: expected an output that JSON can hold, as of a worker: {error}") from error
    return made


def _plain(output: Any) -> Any:
    if (fault := endless_number(output)) is not None:
        raise ValueError(f"{fault.field or 'the value'}: {fault.reason}")
    return msgspec.json.decode(msgspec.json.encode(output, enc_hook=as_known))


class Deps(Mapping[str, Dep]):
    """The jobs before a step, by the names of their steps; one without a name by the number of its step, as text."""

    def __init__(self, workflow: int | None, step: int | None, found: dict[str, Dep] | None = None) -> None:
        self._of = None if workflow is None or step is None else (workflow, step)
        self._found = found if found is not None or self._of else {}

    async def read(self) -> Self:
        """Read them without holding up the event loop; return them."""
        import asyncio  # noqa: PLC0415 - a program that only declares workers does not load it

        await asyncio.to_thread(self._all)
        return self

    def __getitem__(self, name: str) -> Dep:
        """Return one of them; KeyError if the step runs after none of that name.

        A step of a nested workflow, `eu/fetch`, is found by the last part of its name, too, unless there are two of these.
        """
        found = self._all()
        if name not in found:
            inner = [whole for whole in found if whole.endswith(f"/{name}")]
            if len(inner) == 1:
                return found[inner[0]]
        return found[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._all())

    def __len__(self) -> int:
        """Count them."""
        return len(self._all())

    def _all(self) -> dict[str, Dep]:
        if self._found is None:
            assert self._of is not None  # else there are none
            if _read is None:
                raise FastqError("job.deps: expected a worker process, which reads them from its database; here is none")
            self._found = {
                name: Dep(job, state, None if output is None else msgspec.json.decode(output))
                for name, job, state, output in _read(*self._of)
            }
        return self._found
