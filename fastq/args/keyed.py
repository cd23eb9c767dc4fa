"""The part of a job's args that is its key at a gate: named fields, all args, or the value that a function makes of them.

Pure functions on plain values, called wherever a key is made: in the thread that enqueues; in the thread that imports an
application, where gates and unique kinds are checked; in the producer's thread, for a job that came past its gates; and in a
command or client that pauses or releases a key of a gate. A key is JSON, so that 42 and "42" are two keys, and so that people can
read it; a key that is longer than LONGEST is replaced by a digest, since an index holds it.

Invariant: equal args have equal keys, in any program that enqueues. It deliberately does not say to which end a key is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from fastq.args.faults import as_known, endless_number, show
from fastq.errors import ArgsError, OptionError

By = str | tuple[str, ...] | Callable[[Any], object] | None
"""The name of a field, with dots where it is nested; several of them; a function of the args; None: all jobs have one key."""

LONGEST = 200
"""Bytes of a key that is kept as it is: an index entry of Postgres holds 2,700 at most, and a job may have several keys."""

ABSENT = object()

_encode = msgspec.json.Encoder(enc_hook=as_known, order="deterministic").encode


def check_by(by: object, told: str) -> By:
    """Return the declaration of a key, or raise OptionError with the rule."""
    if by is None or callable(by):
        return by
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) and all(part.isidentifier() for part in name.split(".")) for name in names):
        raise OptionError(f"{told}: by={show(by)}: expected the name of a field, such as 'account_id', several, or a function")
    return names[0] if len(names) == 1 else names


def check_fields(by: By, type_: Any, told: str) -> None:
    """Raise OptionError if the args have no such field; a type that is unknown now (its name is not defined yet) is let pass."""
    for name in (by,) if isinstance(by, str) else by if isinstance(by, tuple) else ():
        types_at(name, type_, f"{told}: by={name!r}")


def types_at(name: str, type_: Any, told: str) -> list[msgspec.inspect.Type] | None:
    """Return the types that the value of a field may have, None if nobody can tell; OptionError if there is no such field."""
    at = _members(type_)
    for part in name.split("."):
        fields: dict[str, list[msgspec.inspect.Type]] = {}
        for member in at:
            own = _fields(member)
            if own is None:
                return None
            for field, its_type in own.items():
                fields.setdefault(field, []).extend(_members(its_type))
        if part not in fields:
            raise OptionError(f"{told}: {names_of(at)} has no field '{part}', it has {', '.join(fields) or 'none'}")
        at = fields[part]
    return None if any(map(_is_unknown, at)) else at


def names_of(types: list[msgspec.inspect.Type]) -> str:
    """Name types for a message; a None beside others is left out."""
    names = [getattr(getattr(type_, "cls", None), "__qualname__", None) or _plain_name(type_) for type_ in types]
    return " | ".join(dict.fromkeys(name for name in names if name != "None")) or "None"


def key_of(by: By, args: Any, kind: str) -> msgspec.Raw:
    """Return the key of a job as JSON; ArgsError if it has none."""
    if by is None:
        return msgspec.Raw(b'""')
    if callable(by):
        value = by(args)
    elif isinstance(by, str):
        value = _value(args, by, kind)
    else:
        value = [_value(args, name, kind) for name in by]
    field = by if isinstance(by, str) else ""
    if endless_number(value) is not None:
        raise ArgsError(kind, f"the key {show(value)} is no finite number", field=field)
    try:
        return as_key(value)
    except TypeError as error:
        raise ArgsError(kind, f"the key {show(value)} has no JSON form: {error}", field=field) from error


def as_key(value: object) -> msgspec.Raw:
    """Return a value as a key; TypeError if it has no JSON form."""
    text = _encode(value)
    return msgspec.Raw(text if len(text) <= LONGEST else b'"sha256-%s"' % hashlib.sha256(text).hexdigest().encode())


def found(args: Any, name: str) -> Any:
    """Return the value of a field, ABSENT if these args have none: a TypedDict may leave a key out."""
    value = args
    for part in name.split("."):
        value = value.get(part, ABSENT) if isinstance(value, Mapping) else getattr(value, part, ABSENT)
        if value is ABSENT:
            break
    return value


def name_in_json(name: str, type_: Any) -> str:
    """Return the name that a field of args of this type has in JSON: a Struct, or a model of pydantic, may give it another."""
    fields: Any = getattr(type_, "__struct_fields__", ())
    if name in fields:
        renamed: str = type_.__struct_encode_fields__[fields.index(name)]
        return renamed
    field = getattr(type_, "model_fields", {}).get(name)
    return getattr(field, "serialization_alias", None) or name


def _value(args: Any, name: str, kind: str) -> Any:
    value = found(args, name)
    if value is ABSENT:
        raise ArgsError(kind, "the args have no such field, and it is the key of a gate", field=name)
    return value


def _members(type_: Any) -> list[msgspec.inspect.Type]:
    """Return the types that a value of this type may have: those of a union, without the marks of Annotated."""
    if isinstance(type_, msgspec.inspect.Metadata):
        return _members(type_.type)
    if isinstance(type_, msgspec.inspect.UnionType):
        return [member for part in type_.types for member in _members(part)]
    if isinstance(type_, msgspec.inspect.Type):
        return [type_]
    if get_origin(type_) in (Union, UnionType):  # before msgspec sees it, which refuses some unions that pydantic takes
        return [member for part in get_args(type_) for member in _members(part)]
    try:
        return _members(msgspec.inspect.type_info(type_))
    except (TypeError, NameError):
        return [msgspec.inspect.AnyType()]


def _fields(type_: msgspec.inspect.Type) -> dict[str, Any] | None:
    """Return the fields of a type that is no union, with their types; None where nobody can tell."""
    if _is_unknown(type_):
        return None
    if isinstance(type_, msgspec.inspect.CustomType):  # a pydantic model; a Secret has none that anybody may name
        return {name: field.annotation for name, field in getattr(type_.cls, "model_fields", {}).items()}
    return {field.name: field.type for field in getattr(type_, "fields", ())}  # numbers, texts and lists have none


def _is_unknown(type_: msgspec.inspect.Type) -> bool:
    """Tell whether values of this type may have fields that nobody knows."""
    if isinstance(type_, msgspec.inspect.CustomType):
        return not (hasattr(type_.cls, "model_fields") or hasattr(type_.cls, "__fastq_secret__"))
    return isinstance(type_, msgspec.inspect.AnyType | msgspec.inspect.DictType)


def _plain_name(type_: msgspec.inspect.Type) -> str:
    name = type(type_).__name__.removesuffix("Type")
    return name if name == "None" else name.lower()
