"""The part of a job's args that is its key at a gate: named fields, all args, or what a function makes of them.

Runs in the enqueuing thread, on plain values. A key is JSON, so that 42 and "42" are two keys, and so that people can read it; a
key that is longer than LONGEST is replaced by a digest, since an index holds it.

Invariant: equal args have equal keys, in any program that enqueues. It deliberately does not say what a key is for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

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
    """Return what a key is made of, or raise OptionError with the rule."""
    if by is None or callable(by):
        return by
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) and all(part.isidentifier() for part in name.split(".")) for name in names):
        raise OptionError(f"{told}: by={show(by)}: expected the name of a field, such as 'account_id', several, or a function")
    return names[0] if len(names) == 1 else names


def check_fields(by: By, type_: Any, told: str) -> None:
    """Raise OptionError if the args have no such field; what is unknown now (a name that is not defined yet) is let pass."""
    for name in (by,) if isinstance(by, str) else by if isinstance(by, tuple) else ():
        at = type_
        for part in name.split("."):
            fields = _fields(at)
            if fields is None:
                break
            if part not in fields:
                raise OptionError(
                    f"{told}: by={name!r}: {getattr(at, '__qualname__', at)} has no field '{part}', it has {', '.join(fields)}"
                )
            at = fields[part]


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


def _value(args: Any, name: str, kind: str) -> Any:
    value = found(args, name)
    if value is ABSENT:
        raise ArgsError(kind, "the args have no such field, and it is the key of a gate", field=name)
    return value


def _fields(type_: Any) -> dict[str, Any] | None:
    """Return the fields of a type and their types; None where nobody can tell."""
    if hasattr(type_, "model_fields"):
        return {name: field.annotation for name, field in type_.model_fields.items()}
    try:
        found = msgspec.inspect.type_info(type_)
    except (TypeError, NameError):
        return None
    while isinstance(found, msgspec.inspect.Metadata):
        found = found.type
    fields = getattr(found, "fields", None)
    return {field.name: _type_of(field.type) for field in fields} if fields else None


def _type_of(found: msgspec.inspect.Type) -> Any:
    return getattr(found, "cls", None)
