"""An application whose jobs end in ways that nobody expects: in threads (kind `odd`) and on the event loop (kind `async_odd`)."""

import functools
from dataclasses import dataclass

import msgspec

from fastq import Args, Job, Registry, Worker

registry = Registry()


class Mute(Exception):
    """Ends whoever asks it what is wrong."""

    def __str__(self):
        raise KeyboardInterrupt("no text")


def misbehave(what):
    """End as no job should."""
    if what == "syntax":
        raise SyntaxError("no line like that", ("file", 1, 2, 12345))  # the module traceback trips over it
    if what == "mute":
        raise Mute
    if what == "notes":
        error = ValueError("with notes")
        error.__notes__ = 5
        raise error
    if what == "raw":
        return msgspec.Raw(b"\xff\xfe")
    if what == "generator":
        return (misbehave(each) for each in ("syntax", "mute"))
    return None


def passing_on(function):
    """Wrap as decorators are written that know nothing of coroutines."""

    @functools.wraps(function)
    def wrapped(*args):
        return function(*args)

    return wrapped


@dataclass
class Odd(Args, kind="odd"):
    what: str


@registry.register
class OddWorker(Worker[Odd]):
    def work(self, job: Job[Odd]) -> object:
        return misbehave(job.args.what)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 3600.0


@dataclass
class AsyncOdd(Args, kind="async_odd"):
    what: str


@registry.register
class AsyncOddWorker(Worker[AsyncOdd]):
    async def work(self, job: Job[AsyncOdd]) -> object:
        return misbehave(job.args.what)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 3600.0


@dataclass
class Wrapped(Args, kind="wrapped"):
    """Worked by a coroutine function that does not look like one."""


@registry.register
class WrappedWorker(Worker[Wrapped]):
    @passing_on
    async def work(self, job: Job[Wrapped]) -> None:
        pass


@dataclass
class Forgotten(Args, kind="forgotten"):
    """Leaves nothing behind, though it returns something."""


@registry.register
class ForgottenWorker(Worker[Forgotten]):
    archive = False

    def work(self, job: Job[Forgotten]) -> str:
        return "done"
