"""Values that do not show themselves: `Secret[str]` as the type of a field, and dots in place of encrypted parts of stored JSON.

Made by the caller that enqueues and by the codec in a worker process, and the caller's from then on. A `Secret` says its value to
`reveal` alone; its text, in messages, tracebacks and logs, is three dots. Pure functions besides.

Invariant: no text that is made of a Secret by Python has its value. It deliberately does not keep the value from code of the
program's own, which can reveal each object that it holds.
"""

from __future__ import annotations

import hmac
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from fastq.args.equal import types_in
from fastq.args.faults import walk
from fastq.args.keyed import types_at
from fastq.masked import HIDDEN

T = TypeVar("T")

ENVELOPE = b'"$fq"'
"""The key by which an object in stored args is an encrypted part: no other key of args may be this one."""

CONTEXT = "fastq"
"""The key of pydantic's context under which a codec says that values are to be written."""


class Secret(Generic[T]):
    """A value of args that is stored encrypted, and shown to nobody: `card: Secret[str]`; `args.card.reveal()` is the value."""

    __slots__ = ("_value",)
    __fastq_secret__ = True

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        """Show that there is something."""
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        """Show as little."""
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        """Compare the values; texts in a time that does not tell how far they are alike."""
        if not isinstance(other, Secret):
            return NotImplemented
        mine, others = self._value, other._value
        if isinstance(mine, str) and isinstance(others, str):
            return hmac.compare_digest(mine.encode("utf-8", "surrogatepass"), others.encode("utf-8", "surrogatepass"))
        return bool(mine == others)

    def __hash__(self) -> int:
        """Go with `==`."""
        return hash((Secret, self._value))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Tell pydantic how to read a value, and to write it for a codec of ours alone."""
        from pydantic_core import core_schema  # noqa: PLC0415 - pydantic itself has called this

        inner = handler((get_args(source) or (Any,))[0])
        return core_schema.no_info_wrap_validator_function(
            lambda value, read: cls(read(value.reveal() if isinstance(value, Secret) else value)),
            inner,
            serialization=core_schema.plain_serializer_function_ser_schema(_written, info_arg=True),
        )


def _written(value: Secret[Any], info: Any) -> Any:
    write = (info.context or {}).get(CONTEXT)
    return HIDDEN if write is None else write(value)


def hide(cls: type) -> None:
    """Have objects of a class show nothing but its name; a decorator that comes later leaves that as it is."""
    if "__repr__" not in cls.__dict__:  # past a metaclass that may refuse attributes
        for name in ("__repr__", "__str__"):
            type.__setattr__(cls, name, lambda self: f"{type(self).__qualname__}({HIDDEN})")


def has_secrets(type_: Any) -> bool:
    """Tell whether a type, or one of those that its fields may have, is a Secret."""
    return any(one is Secret or get_origin(one) is Secret for one in types_in(type_))


def has_secrets_in(value: Any) -> bool:
    """Tell whether a value is a Secret, or has one among its parts."""
    return any(isinstance(part, Secret) for _, part, _ in walk(value))


def is_secret_at(name: str, type_: Any) -> bool:
    """Tell whether the field of this name may be a Secret, or have one among its parts."""
    return any(map(_hides, types_at(name, type_, "") or ()))


def _hides(type_: Any) -> bool:
    cls = getattr(type_, "cls", None)
    inner = (getattr(type_, word, None) for word in ("item_type", "value_type"))
    return hasattr(cls, "__fastq_secret__") or has_secrets(cls) or any(_hides(one) for one in inner if one is not None)


def read_secret(type_: Any, value: Any) -> Any:
    """Make a Secret of a plain value: the `dec_hook` of msgspec."""
    if type_ is not Secret and get_origin(type_) is not Secret:
        raise NotImplementedError(f"{type_!r} cannot be read from JSON")
    try:
        return Secret(msgspec.convert(value, (get_args(type_) or (Any,))[0]))
    except msgspec.ValidationError as error:
        raise ValueError(_without_value(error)) from None  # msgspec adds the field to it


def _without_value(error: Exception) -> str:
    """Return the text of an error about a hidden value, as far as it is about its type."""
    text = str(error)
    ours = isinstance(error, msgspec.ValidationError) and error.__cause__ is None and text.startswith("Expected")
    return text if ours else "the hidden value is none of those that are allowed"


def concealed(text: str) -> str:
    """Return stored JSON for people: what is encrypted in it is three dots."""
    if ENVELOPE.decode() not in text:
        return text
    return msgspec.json.encode(_concealed(msgspec.json.decode(text))).decode()


def _concealed(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_concealed(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    return HIDDEN if "$fq" in tree else {name: _concealed(part) for name, part in tree.items()}
