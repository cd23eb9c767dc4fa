"""Keep encrypted args out of the texts of failures: an exception of `work` is told without the values that its job's args hide.

A hook innermost around the workers of kinds with encrypted args; a worker of any other kind has none. It runs in the executor's
thread or on the event loop, and only where `work` has raised: it notes the values with the exception, and each text that is made
of the exception then has dots in their place (texts.py), in the log, the row and the traceback.

Invariant: the exception itself is not changed, so handlers and hooks see what was raised. It deliberately finds no value of fewer
than SHORTEST characters, which would take letters out of every text, and none that the user's code has turned into another form.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastq.args.faults import walk
from fastq.args.hook import Hook
from fastq.args.secret.hidden import Secret
from fastq.texts import CONCEALED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from fastq.args.kinds import Kind
    from fastq.jobs.job import Job

SHORTEST = 4
"""Characters of the shortest value that is taken out: the digits of a code, or the last ones of a card."""


class Concealing(Hook):
    """Note the hidden values of a job with an exception of its `work`."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def around(self, job: Job[Any]) -> Iterator[None]:
        """Let the work be done."""
        try:
            yield
        except BaseException as error:
            self._note(error, [job])
            raise

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:
        """Let the work of a batch worker be done: an exception may tell of any of its jobs, be it raised or returned."""
        try:
            return self._noted(proceed(), jobs)
        except BaseException as error:
            self._note(error, jobs)
            raise

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:
        """Let it be done on the event loop."""
        try:
            return self._noted(await proceed(), jobs)
        except BaseException as error:
            self._note(error, jobs)
            raise

    def _noted(self, results: object, jobs: Sequence[Job[Any]]) -> object:
        told = results.values() if isinstance(results, Mapping) else results if isinstance(results, list | tuple) else [results]
        for result in told:
            if isinstance(result, BaseException):
                self._note(result, jobs)
        return results

    def _note(self, error: BaseException, jobs: Iterable[Job[Any]]) -> None:
        with suppress(Exception):  # an exception without room for it, args that cannot be walked
            texts = {text for job in jobs for text in hidden_texts(job.args, whole=self._whole)}
            setattr(error, CONCEALED, sorted(texts, key=len, reverse=True))


def hidden_texts(args: Any, *, whole: bool) -> list[str]:
    """Return the texts of the values that are hidden in args, all of them or those of Secrets, the longest first."""
    roots = [args] if whole else [part.reveal() for _, part, _ in walk(args) if isinstance(part, Secret)]
    found: set[str] = set()
    for root in roots:
        for _, part, _ in walk(root):
            value = part.reveal() if isinstance(part, Secret) else part
            if isinstance(value, str | int | float | bytes) and not isinstance(value, bool):
                text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                found |= {text, repr(text)[1:-1]}
    return sorted((text for text in found if len(text) >= SHORTEST), key=len, reverse=True)


def concealing(kind: Kind[Any]) -> tuple[Hook, ...]:
    """Return the hook for a kind with encrypted args; nothing for any other."""
    return (Concealing(whole=kind.encrypted),) if kind.hides else ()
