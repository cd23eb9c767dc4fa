"""Define hooks: objects that an application puts around the work of jobs and around their enqueueing.

A hook is made while the application is imported, and then called by every thread that enqueues or works jobs: one object serves
them all, so it keeps no state of a job on `self`. `check_hooks` refuses mistakes where hooks are given: to a kind, a worker, a
registry or a client.

Invariant: a hook has at least one of the methods that are called where it was given. This module deliberately calls none of them:
hooks/around.py composes those around work, once per worker, and enqueue/asking.py calls those around an enqueue.
"""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any

from fastq.args.meta import CARRIED
from fastq.args.options import DEFAULT_QUEUE
from fastq.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from fastq.jobs.job import Job

WORKING, ENQUEUEING = ("work", "work_async", "around", "work_many", "work_many_async"), ("enqueue",)
"""The methods of a hook that are called around work, and around an enqueue."""

CALLS = {
    "work": "def work(self, job, proceed)",
    "work_async": "async def work_async(self, job, proceed)",
    "around": "def around(self, job) with one yield in it",
    "work_many": "def work_many(self, jobs, proceed)",
    "work_many_async": "async def work_many_async(self, jobs, proceed)",
    "enqueue": "def enqueue(self, enqueuing)",
}
"""Each method of a hook as one writes it."""

FOREIGN = {
    **dict.fromkeys(("__call__", "call", "process", "execute", "perform", "run", "wrap"), "work"),
    **dict.fromkeys(("awork", "async_work", "acall"), "work_async"),
    **dict.fromkeys(("before", "after", "before_work", "after_work", "around_work", "context"), "around"),
    **dict.fromkeys(("before_enqueue", "around_enqueue", "on_enqueue"), "enqueue"),
}
"""Names that other job queues and frameworks have for these methods: a class that has none of ours means one of them."""

ALIKE = 0.75
"""How alike a name and a slip of it are: `works`, `enqueu`, `arround`; `worker` and `queue` are not."""

MOST_CARRIED = 4_096
"""Bytes of JSON that a job carries from its enqueue to its work. A guess: names and ids, of which each claim makes a copy."""


class Enqueuing:
    """A job that is about to be enqueued, as the `enqueue` of a hook sees it: its `kind` (a name), `queue`, `args` and `options`.

    `options` is a dict of those that were given for this job; a hook changes it like any dict, and the same checks follow. The
    values that `carry` is given travel with the job, as JSON: in the worker they are `job.carried`.
    """

    __slots__ = ("_queue", "args", "carried", "kind", "options")

    def __init__(self, kind: str, args: Any, options: Mapping[str, Any], queue: str | None = None) -> None:
        self._queue = queue or DEFAULT_QUEUE
        self.kind = kind
        self.args = args
        self.options: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        self.carried: dict[str, Any] = {}

    @property
    def queue(self) -> str:
        """Name the queue that the job goes to by its options as they are now, else by its kind."""
        return str(self.options.get("queue") or self._queue)

    def carry(self, **values: Any) -> None:
        """Have values travel with the job: texts, numbers, lists and dicts of these."""
        self.carried.update(values)

    def in_json(self) -> str | None:
        """Write the carried values as JSON, None if there are none; OptionError if they would not come back equal."""
        if not self.carried:
            return None
        text = CARRIED.encode(self.carried)
        if len(text) > MOST_CARRIED:
            raise OptionError(
                f"carried values of a job of kind '{self.kind}': expected {MOST_CARRIED} bytes of JSON at most, got {len(text)}; "
                "store the data elsewhere, and carry their key"
            )
        return text


class Hook:
    """Derive from this and write one or more of its methods; give the object to a registry, a kind, a worker or a client.

    Around `def work` there is `work`, around `async def work` there is `work_async`, and `around` serves both where something is
    only opened and closed again. Around `work_many` of a batch worker there are `work_many` and `work_many_async`. `enqueue` sees
    each job before it is enqueued.
    """

    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:  # noqa: ARG002 - for a hook's own method
        """Work a job of a `def work`: `proceed()` does, and its return value or exception is returned or raised in its place."""
        return proceed()

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:  # noqa: ARG002 - the same
        """Work a job of an `async def work`: the same, with `await proceed()`."""
        return await proceed()

    def around(self, job: Job[Any]) -> Iterator[None]:  # noqa: ARG002 - the same
        """Open something, yield once, close it; an exception of the work is raised at the yield, and goes on after that."""
        yield

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:  # noqa: ARG002 - the same
        """Work the jobs of one call of a `def work_many`; what is returned may name other results for some, as there."""
        return proceed()

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:  # noqa: ARG002 - the same
        """Work the jobs of one call of an `async def work_many`: the same, with `await proceed()`."""
        return await proceed()

    def enqueue(self, enqueuing: Enqueuing) -> None:
        """Look at a job that is about to be enqueued, change its options, have values travel with it, or raise to refuse it."""


def has(hook: Hook, name: str) -> bool:
    """Tell whether a hook has a method of its own of this name."""
    return getattr(type(hook), name) is not getattr(Hook, name)


def check_hooks(hooks: object, *, called: Sequence[str] = (*WORKING, *ENQUEUEING)) -> tuple[Hook, ...]:
    """Return the hooks, or raise OptionError with the rule; one of the methods that are `called` has to be there in each."""
    if not isinstance(hooks, list | tuple):
        raise OptionError(f"hooks={hooks!r}: expected a list of hooks, such as hooks=[Timing()]")
    return tuple(_check(hook, called) for hook in hooks)


def _check(hook: object, called: Sequence[str]) -> Hook:
    if isinstance(hook, type):
        raise OptionError(f"hooks: expected an object, got the class {hook.__qualname__} itself: write {hook.__qualname__}()")
    if not isinstance(hook, Hook):
        raise OptionError(f"hooks: expected an object of a class derived from Hook, got {hook!r}")
    _check_names(hook)
    own = [name for name in CALLS if has(hook, name)]
    for name in own:
        _check_method(hook, name)
    if "around" in own and ("work" in own or "work_async" in own):
        raise OptionError(f"hook {_told(hook)} has around, and work or work_async too: write all in the one form or the other")
    if not any(name in called for name in own):
        wanted = ", or ".join(CALLS[name] for name in called)
        raise OptionError(f"hook {_told(hook)} has nothing that is called here; write {wanted}")
    return hook


def _check_names(hook: Hook) -> None:
    """Refuse a method that is one of ours but for a slip: it would never be called."""
    own = {name for cls in type(hook).__mro__ if cls not in (Hook, object) for name, it in vars(cls).items() if callable(it)}
    for name in sorted(own - CALLS.keys()):
        public = [] if name.startswith("_") else difflib.get_close_matches(name, CALLS, n=1, cutoff=ALIKE)
        meant = public[0] if public else None if own & CALLS.keys() else FOREIGN.get(name)
        if meant:
            raise OptionError(
                f"hook {_told(hook)} has a method {name}, which is never called; did you mean {CALLS[meant]}? "
                "One of your own begins with '_', or has a name less like it"
            )


def _check_method(hook: Hook, name: str) -> None:
    """Refuse a method that could not be called, or that would not run its body when called."""
    method = getattr(hook, name)
    generates = inspect.isgeneratorfunction(method)
    awaits = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
    if not callable(method) or generates is not (name == "around") or awaits is not name.endswith("_async"):
        if name == "around" and hasattr(method, "__wrapped__"):
            raise OptionError(f"hook {_told(hook)}.around is decorated; leave the decorator away: {CALLS[name]}")
        raise OptionError(f"hook {_told(hook)}.{name}: expected {CALLS[name]}")
    given = ("job",) if name in ("around", "enqueue") else ("job", "proceed")
    signature = inspect.signature(method)
    try:
        signature.bind(*given)
    except TypeError as error:
        raise OptionError(f"hook {_told(hook)}.{name} takes {signature} ({error}); write: {CALLS[name]}") from error


def _told(hook: Hook) -> str:
    return f"{type(hook).__module__}.{type(hook).__qualname__}"
