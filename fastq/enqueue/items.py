"""The jobs that a caller hands to a client: args, or args with options of their own; each with its checked spec and its JSON.

Runs in the enqueuing thread or event loop, on plain values, one job after the other as they are read. An `Enqueue` is the
caller's, and only read here.

Invariant: an option counts in this order: the job's own (`Enqueue`), the call's, the kind's, the default of job.py. An error of a
job tells its position.

It deliberately keeps no job: calls.py collects all of them for one statement, copies.py sends them while it reads more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from fastq.args.hook import Hook
from fastq.args.kinds import Args, Kind, R, kind_of
from fastq.args.queues import QUEUES
from fastq.args.text import ArgsCodec
from fastq.args.unique import Unique
from fastq.errors import ArgsError, OptionError, UnknownKind
from fastq.hooks.asking import asked
from fastq.jobs.job import State
from fastq.jobs.spec import JobSpec, Options, carrying, check_names, gated, keyed, spec_of, unique_of

A = TypeVar("A")


Settled = tuple[JobSpec, ArgsCodec[Any], Unique | None]
"""The options of a job or of several, and how the args of its kind are written."""


class Enqueue:
    """One job of `enqueue_many` with options of its own: `Enqueue(SortArgs(["b", "a"]), priority=2)`."""

    __slots__ = ("args", "kind", "options")

    @overload
    def __init__(self, args: Args, **options: Unpack[Options]) -> None: ...
    @overload
    def __init__(self, args: A, *, kind: Kind[A], **options: Unpack[Options]) -> None: ...
    def __init__(self, args: Any, *, kind: Kind[Any] | None = None, **options: Unpack[Options]) -> None:
        check_names(options)
        self.args = args
        self.kind = kind
        self.options = options

    def __repr__(self) -> str:
        """Show the args and the options that were given."""
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Enqueue({self.args!r}{given})"


class Enqueued(int, Generic[R]):
    """The id of a job, as a number which also says whether this call has made the job.

    It has not where the job is unique and another one holds its key: this is that job's id then, `state` the state in which it
    was (None: it has ended), and `why` tells the rest: "kept" (nothing), "replaced", "debounced", "collected", or "started"
    (it was to be replaced, and had started: nothing). Of a new job `cancelled` is the id of the one that was cancelled for it.
    """

    new: bool = True
    why: str = "new"
    state: State | None = None
    cancelled: int | None = None
    result: type[R] | None = None  # the type that its kind declares for the value that `work` returns
    in_transaction: bool = False  # it was enqueued with `conn`, so others see it when that has committed

    @classmethod
    def held(cls, holder: int, why: str, state: str | None) -> Self:
        """Tell of a job that another call has made."""
        told = cls(holder)
        told.new, told.why, told.state = False, why, None if state is None else State(state)
        return told

    @classmethod
    def instead_of(cls, cancelled: int | None, job_id: int) -> Self:
        """Tell of a new job for which another one was cancelled."""
        told = cls(job_id)
        told.cancelled = cancelled
        return told


def several(items: Any) -> Iterable[Any]:
    """Return the items, or raise OptionError where they are one: also a pydantic model, which yields its fields."""
    if isinstance(items, Iterable) and not isinstance(items, Args | Enqueue):
        given: Iterable[Any] = items
        return given
    hint = "for one job: enqueue(args)"
    if hasattr(items, "__aiter__"):
        hint = "collect them first: [args async for args in ...]"
    raise OptionError(f"expected an iterable of args, got one {type(items).__qualname__}; {hint}")


def encoded(
    items: Iterable[Any], kind: Kind[Any] | None, options: Options, max_bytes: int, hooks: Sequence[Hook] = ()
) -> Iterator[tuple[JobSpec, bytes]]:
    """Yield the spec and the JSON of each job; jobs of one kind without hooks and options of their own share their spec."""
    shared: dict[Kind[Any], Settled] = {}
    for position, item in enumerate(items):
        try:
            if type(item) is Enqueue:
                args, of = item.args, kind_of(item.args, item.kind or kind)
                spec, codec, unique = _settled(args, of, options, item.options, hooks)
            else:
                args, of = item, kind_of(item, kind)
                settled = shared.get(of)
                if settled is None:
                    settled = _settled(args, of, options, None, hooks)
                    if not hooks and not of.asked:
                        shared[of] = settled
                spec, codec, unique = settled
            text = codec.encode(args, max_bytes)
            if of.gates or spec.queue in QUEUES:
                spec = gated(spec, of.gates_of(args, spec.queue))
            if unique is not None:
                spec = keyed(spec, of.key_of(unique, args, text, spec.queue))
        except ArgsError as error:
            error.position = position
            raise
        except (UnknownKind, OptionError) as error:
            if isinstance(error, UnknownKind) or type(item) is Enqueue:  # else it is the call's, and no item's
                raise type(error)(f"at position {position}: {error}") from None
            raise
        yield spec, text


def _settled(args: Any, of: Kind[Any], options: Options, own: Options | None, hooks: Sequence[Hook]) -> Settled:
    """Settle the options of a job, its own first; hooks may change them."""
    carried = None
    if of.asked or hooks:
        options, carried = asked(hooks, of, args, options, own)
        own = None
    return carrying(spec_of(of, options, own), carried), of.codec, unique_of(of, options, own)
