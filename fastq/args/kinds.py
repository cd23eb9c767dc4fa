"""Declare the args of a kind: a type, its name in the database, its options.

Three spellings, one `Kind` behind each:

    @dataclass
    class SortArgs(Args, kind="sort"): ...          dataclasses, attrs classes, pydantic models

    @kind("resize", queue="images")                 msgspec Structs: their metaclass takes no keywords of ours
    class Resize(Args, msgspec.Struct): ...

    MAIL = Kind("mail", MailDict)                   TypedDicts (no class at run time) and classes of others

Kinds are made at import, and read by every thread afterwards. Only a `Registry` changes one later, also at import: it fills in
options that the args leave open. The `codec` of a kind is made, and its fields are checked again, by the thread that first writes
or reads its args. An option that a kind leaves open (None) has the default of args/options.py.

A kind that was renamed has its former names as `aliases`, under which its worker finds jobs, too. A kind of which the args have
changed has a `version`, and an `upgrade` function for each version before it (args/versions/).

An enqueuing service needs the args alone. A subclass is no kind until it says so: its jobs would come back as its parent. `Args`
has no attribute without underscores: a dataclass takes those for defaults.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, Generic, TypedDict, TypeVar, Unpack, get_origin, is_typeddict, overload

import msgspec

from fastq.args.gates import Gate, check_gates, entries
from fastq.args.hook import Hook, check_hooks, has
from fastq.args.meta import VERSION, Kept
from fastq.args.options import (
    DEFAULT_QUEUE,
    Counting,
    Span,
    Tags,
    check_aliases,
    check_either,
    check_kind_name,
    check_max_attempts,
    check_priority,
    check_queue,
    check_tags,
)
from fastq.args.queues import gates_at
from fastq.args.secret import allowed
from fastq.args.secret.hidden import has_secrets, hide
from fastq.args.secret.ring import keyed
from fastq.args.secret.sealing import SealingCodec
from fastq.args.text import ArgsCodec
from fastq.args.unique import Asked, Unique, check_unique
from fastq.args.versions.upgrades import Upgrades, check_version
from fastq.errors import ArgsError, OptionError, UnknownKind

if sys.version_info >= (3, 13):
    from typing import TypeVar as TypeVarWithDefault
else:
    from typing_extensions import TypeVar as TypeVarWithDefault

A = TypeVar("A")
R = TypeVarWithDefault("R", default=Any)
"""The type of the value that `work` returns, where it is declared."""

C = TypeVar("C", bound="Args")
U = TypeVar("U", bound=Callable[[dict[str, Any]], dict[str, Any]])


class UntypedOptions(TypedDict, total=False):
    """The options of all jobs of a kind, but for the type of their results."""

    queue: str
    priority: int
    max_attempts: int
    tags: Tags
    gates: Sequence[Gate]
    unique: Unique
    hooks: Sequence[Hook]
    expires: Span
    deadline: Span
    keep_trying_for: Span
    attempts: Counting
    forbid_unknown_keys: bool
    aliases: Sequence[str]
    version: int
    encrypted: bool


class KindOptions(UntypedOptions, total=False):
    """The options in `class X(Args, kind="x", ...)` and `@kind("x", ...)`, for all jobs of the kind."""

    result: Any  # a type: that of the value that `work` returns


class Kind(Generic[A, R]):
    """A kind of job: its name, the type of its args, and the options of its jobs that differ from the defaults."""

    expires, deadline, keep_trying_for, attempts = Kept(), Kept(), Kept(), Kept()

    @overload
    def __init__(self, name: str, type: type[A], **options: Unpack[UntypedOptions]) -> None: ...
    @overload
    def __init__(self, name: str, type: type[A], *, result: type[R], **options: Unpack[UntypedOptions]) -> None: ...
    def __init__(
        self,
        name: str,
        type: type[A],  # noqa: A002 - its name everywhere else
        *,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        tags: Tags = (),
        gates: Sequence[Gate] = (),
        unique: Unique | None = None,
        hooks: Sequence[Hook] = (),
        expires: Span | None = None,
        deadline: Span | None = None,
        keep_trying_for: Span | None = None,
        attempts: Counting | None = None,
        forbid_unknown_keys: bool = False,
        aliases: Sequence[str] = (),
        version: int = 1,
        encrypted: bool = False,
        result: Any = None,
    ) -> None:
        self.name = check_kind_name(name)
        self.aliases = check_aliases(aliases, name)  # its former names, the newest first
        self.type, self.encrypted = type, encrypted
        self.result = None if result is None else check_result(result)
        self.queue = None if queue is None else check_queue(queue)
        self.priority = None if priority is None else check_priority(priority)
        self.max_attempts = None if max_attempts is None else check_max_attempts(max_attempts)
        self.tags = check_tags(tags)
        self.gates = check_gates(gates)
        self.unique = None if unique is None else check_unique(unique)
        self.hooks = check_hooks(hooks)
        self.asked = tuple(hook for hook in self.hooks if has(hook, "enqueue"))  # about each enqueue
        check_either(max_attempts, keep_trying_for)
        self.kept: dict[str, Any] = {}  # the options that lie in the meta of its jobs
        self.expires, self.deadline, self.keep_trying_for, self.attempts = expires, deadline, keep_trying_for, attempts
        self._settle_version(check_version(version))
        self.forbid_unknown_keys = forbid_unknown_keys
        _check_type(self)

    def _settle_version(self, version: int) -> None:
        self.version = version
        if version > 1:
            self.kept[VERSION.name] = version
        self.upgrades = Upgrades(self.name, version)
        self.reading = cache(self._reading)

    @property
    def place(self) -> str:
        """Say where the type is written, for messages."""
        return f"{self.type.__module__}.{getattr(self.type, '__qualname__', self.type)}"

    @cached_property
    def codec(self) -> ArgsCodec[A]:
        """Write and read these args; made at first use, when the class is complete."""
        if reason := unfinished(self.type):
            raise ArgsError(self.name, reason)
        self.check_fields()
        if self.hides:
            names = (self.name, *self.aliases)
            return SealingCodec(names, self.type, whole=self.encrypted, forbid_unknown_keys=self.forbid_unknown_keys)
        return ArgsCodec(self.name, self.type, forbid_unknown_keys=self.forbid_unknown_keys)

    @cached_property
    def hides(self) -> bool:
        """Tell whether these args are stored encrypted, all of them or some fields; to be asked when the class is complete."""
        return self.encrypted or has_secrets(self.type)

    def reads(self, version: str) -> bool:
        """Tell whether args of a version, as a job states it, are of one that this program knows."""
        return version in ("", *map(str, range(1, self.version + 1)))

    def _reading(self, version: str) -> ArgsCodec[A]:
        """Return how args of a version are read that this program knows; the empty text stands for 1."""
        older = int(version or 1)
        return self.codec if older == self.version else self.upgrades.codec(older, self.codec)

    def key_of(self, unique: Unique, args: A, text: bytes, queue: str) -> Asked:
        """Return the key of a unique job. It is made with the oldest name of the kind, so a new name does not change the key.

        Of args that are encrypted it tells nothing.
        """
        text = self.codec.plain(args) if self.hides else text
        asked = unique.asked(args, text, self.aliases[-1] if self.aliases else self.name, queue, self.version)
        hidden = self.hides and (self.encrypted or allowed.is_told_by(unique, args))
        return asked._replace(key=keyed(asked.key)) if hidden else asked

    def check_fields(self) -> None:
        """Raise OptionError if a gate or a key names a field that the args have not; to be called when the class is complete."""
        self._check_gates(gates_at(self.gates, self.queue or DEFAULT_QUEUE))
        if self.unique is not None:
            self.check_unique(self.unique)

    def check_unique(self, unique: Unique) -> None:
        """Raise OptionError if a key names a field that the args have not, or collects what is encrypted as a whole."""
        unique.check(self.type, self.name)
        if self.encrypted:
            allowed.check_collecting(unique, self.name)

    def _check_gates(self, gates: Sequence[Gate]) -> None:
        for gate in gates:
            gate.check(self.type, self.name)
        if gates and self.hides:
            allowed.check_gates(gates, self.type, self.name, encrypted=self.encrypted)

    def gates_of(self, args: A, queue: str) -> str | None:
        """Return the gates that a job goes through in a queue, with its keys, as JSON; None if kind and queue have none."""
        gates = gates_at(self.gates, queue)
        if gates and self.hides:
            self._check_gates(gates)  # those of a queue that was named at this enqueue
        return entries(gates, args, self.name) if gates else None

    def __repr__(self) -> str:
        """Show name and type."""
        return f"Kind({self.name!r}, {self.place})"


class Args:
    """Derive args from this to enqueue them without naming their kind again."""

    __slots__ = ()

    def __init_subclass__(cls, *, kind: str | None = None, **options: Unpack[KindOptions]) -> None:
        """Note the kind; without `kind` the class is a base for others."""
        super().__init_subclass__()
        copied: Kind[Any] | None = cls.__dict__.get("__fastq_kind__")
        if kind is not None:
            _check_options(kind, options)
            _attach(cls, Kind(kind, cls, **options))
        elif copied is not None:
            # attrs and dataclass(slots=True) build the class a second time, from its own contents: the copy is meant.
            copied.type = cls
        elif options:
            raise OptionError(f"{cls.__qualname__}: options need a kind; write class {cls.__name__}(Args, kind=...)")


def kind(name: str, **options: Unpack[KindOptions]) -> Callable[[type[C]], type[C]]:
    """Make the decorated args class a kind, where `class X(Args, kind=...)` cannot be written: a msgspec Struct."""
    check_kind_name(name)  # now: of `@kind` without a call the name is the class, which this would silently replace
    _check_options(name, options)

    def attach(cls: type[C]) -> type[C]:
        if not issubclass(cls, Args):
            raise OptionError(
                f"@kind({name!r}) needs a class derived from Args, so that enqueue takes it: write class "
                f"X(Args, msgspec.Struct); for a class that is not yours Kind({name!r}, X), and enqueue(..., kind=...)"
            )
        _attach(cls, Kind(name, cls, **options))
        return cls

    return attach


def upgrade(kind: Kind[Any] | type[Args], *, from_version: int) -> Callable[[U], U]:
    """Have a function make args of the next version of those of a version, as a decorator of it.

    It gets the JSON of the args as a dict, which it may change, and returns the dict of the next version.
    """
    of = kind if isinstance(kind, Kind) else kind_of_type(kind)

    def add(function: U) -> U:
        of.upgrades.add(from_version, function)
        return function

    return add


def _check_options(kind: str, options: KindOptions) -> None:
    if unknown := options.keys() - KindOptions.__optional_keys__:
        expected = ", ".join(KindOptions.__annotations__)
        raise OptionError(f"kind {kind!r}: unknown option {', '.join(sorted(unknown))}; expected one of {expected}")


def _attach(cls: type[Args], kind: Kind[Any]) -> None:
    if kind.encrypted:
        hide(cls)
    type.__setattr__(cls, "__fastq_kind__", kind)  # past a metaclass that may refuse attributes


def check_result(result: object) -> object:
    """Return the type of the results of a kind, or raise OptionError if no value of it can be read from JSON."""
    if not hasattr(result, "model_validate_json"):
        try:
            msgspec.json.Decoder(result)
        except NameError:  # of a class that is not complete yet: the first value tells
            pass
        except TypeError as error:
            raise OptionError(f"result {result!r}: expected a type that can be read from JSON: {error}") from error
    return result


def _check_type(kind: Kind[Any]) -> None:
    expected: Any = kind.type  # typed as a class, and not trusted to be one
    if not (isinstance(expected, type) or get_origin(expected) or is_typeddict(expected)):
        raise OptionError(f"kind '{kind.name}': expected a class or a TypedDict for its args, got {expected!r}")
    if kind.forbid_unknown_keys and hasattr(expected, "model_validate_json"):
        raise OptionError(
            f"kind '{kind.name}': pydantic has a forbid_unknown_keys of its own; "
            f"write model_config = ConfigDict(extra='forbid') in {kind.place}"
        )


def unfinished(cls: object) -> str | None:
    """Return the hint for a class that cannot be converted because `@dataclass` was forgotten; None for any other type.

    Asked once decorators have done their work: when a worker is registered, and when the first args are written or read.
    """
    if not isinstance(cls, type) or hasattr(cls, "model_validate_json"):
        return None
    try:
        plain = isinstance(msgspec.inspect.type_info(cls), msgspec.inspect.CustomType)
    except (TypeError, NameError):  # of a field: the codec tells which
        return None
    place = f"{cls.__module__}.{cls.__qualname__}"
    return f"{place} is a plain class, which cannot be read from JSON; write @dataclass above it" if plain else None


def kind_of_type(cls: type[A]) -> Kind[A]:
    """Find the kind that an args class declares, or raise UnknownKind with the line to write."""
    found: Kind[A] | None = cls.__dict__.get("__fastq_kind__")
    if found is not None:
        return found
    if not issubclass(cls, Args):
        name = cls.__qualname__
        raise UnknownKind(f"{name} is no Args class: derive it from Args with kind=..., or pass kind=Kind(..., {name})")
    parent = next((base for base in cls.__mro__[1:] if "__fastq_kind__" in base.__dict__), None)
    hint = f"; its parent's kind is not inherited, a worker would see a {parent.__qualname__}" if parent else ""
    raise UnknownKind(
        f"{cls.__module__}.{cls.__qualname__} names no kind: write class {cls.__name__}(..., kind='...'), "
        f"or @kind('...') above a msgspec Struct{hint}"
    )


def kind_of(args: A, handle: Kind[A] | None = None) -> Kind[A]:
    """Find the kind of these args: the handle if one is given, else the kind that their class declares."""
    if handle is not None:
        if not isinstance(handle, Kind):
            raise OptionError(f"kind {handle!r}: expected a Kind, such as MAIL = Kind('mail', MailDict)")
        return handle
    try:
        return kind_of_type(type(args))
    except UnknownKind:
        if hint := _misplaced(args):
            raise UnknownKind(hint) from None
        raise


def _misplaced(args: object) -> str | None:
    """Return a hint at the probable mistake if the args are no args at all."""
    if isinstance(args, type):
        return f"expected args, got the class {args.__qualname__} itself: write {args.__qualname__}(...)"
    if isinstance(args, list | tuple | set | frozenset):
        return f"expected the args of one job, got a {type(args).__name__}: enqueue_many takes several"
    return None
