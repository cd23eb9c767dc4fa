"""Say which args can be read by column, and how: which classes, which of their fields are flat, how their objects are filled.

Asked by core.py, once for each kind, in the first thread that reads its args. Pure functions of classes, which keep nothing.

Objects are filled as msgspec does it, past `__init__`, by a loop with their attributes as its targets:
`for o, o.user, o.text in zip(made, users, texts): pass`. Its text depends on the fields, so it is compiled once per kind, as
dataclasses compile an `__init__`: 0.12 us for an object of 5 fields instead of 0.15 by `map(cls, *columns)`.

It deliberately knows nothing of C, and leaves classes out to which something else belongs than their attributes.
"""

from __future__ import annotations

import dataclasses
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.args.text import ArgsCodec

FEWEST = 2
"""Fields below which msgspec is as fast, and simpler."""

FEW, MANY = 64, 256
"""Jobs of a kind from which on reading them by column is faster: args of flat fields alone, four at least, in objects with a
`__dict__`, which msgspec makes one by one; and all others. A call into C costs 5 to 10 us before the first job, msgspec's 1."""

WIDE = 4
"""Fields of the former."""

FLAT = (msgspec.inspect.IntType, msgspec.inspect.FloatType, msgspec.inspect.BoolType, msgspec.inspect.StrType)
"""Types of fields whose values C reads itself, unless they are constrained; or one of them or None."""

_SCALARS = (
    *FLAT,
    msgspec.inspect.NoneType,
    msgspec.inspect.BytesType,
    msgspec.inspect.DateTimeType,
    msgspec.inspect.DateType,
    msgspec.inspect.TimeType,
    msgspec.inspect.TimeDeltaType,
    msgspec.inspect.UUIDType,
    msgspec.inspect.DecimalType,
    msgspec.inspect.EnumType,
    msgspec.inspect.LiteralType,
)
_LISTS = (msgspec.inspect.ListType, msgspec.inspect.SetType, msgspec.inspect.FrozenSetType, msgspec.inspect.VarTupleType)


def fields_of(codec: ArgsCodec[Any]) -> Sequence[msgspec.inspect.Field] | None:
    """Return the fields of args that can be read by column; None where msgspec does it better or alone can."""
    cls: Any = codec.type  # typed as a class, but `Box[int]` may stand there
    if not codec.as_written or not isinstance(cls, type) or not _is_plain(cls):
        return None
    fields: Sequence[msgspec.inspect.Field] = getattr(msgspec.inspect.type_info(cls), "fields", ())
    if len(fields) < FEWEST or not any(flat_type(field.type)[0] in FLAT for field in fields):
        return None
    if not all(_reads_alone(field.type) for field in fields):
        return None
    if not all(field.name.isascii() and field.name.isidentifier() and not iskeyword(field.name) for field in fields):
        return None
    return fields


def fewest(cls: type, fields: Sequence[msgspec.inspect.Field]) -> int:
    """Return from how many jobs on C is faster."""
    flat = len(fields) >= WIDE and all(flat_type(field.type)[0] in FLAT for field in fields)
    return FEW if flat and _has_dict(cls) else MANY


def _reads_alone(type_: Any) -> bool:
    """Say whether a column of such values is read as fast as the values in their rows: objects in objects are walked twice."""
    if isinstance(type_, msgspec.inspect.UnionType):
        return all(map(_reads_alone, type_.types))
    return isinstance(type_, _SCALARS) or (isinstance(type_, _LISTS) and isinstance(type_.item_type, _SCALARS))


def _has_dict(cls: type) -> bool:
    return cls.__dictoffset__ != 0


def filler(names: Sequence[str]) -> Callable[..., None]:
    """Return the function that gives objects their attributes: it takes them, and the columns of these names."""
    columns = ", ".join(f"column{number}" for number in range(len(names)))
    targets = ", ".join(f"o.{name}" for name in names)
    scope: dict[str, Any] = {}
    exec(f"def fill(made, {columns}):\n for o, {targets} in zip(made, {columns}): pass", scope)  # noqa: S102 - names are identifiers
    fill: Callable[..., None] = scope["fill"]
    return fill


def reader(cls: type, field: msgspec.inspect.Field) -> Callable[[bytes], list[Any]]:
    """Return the function that reads the values of a field as a list; TypeError where the class alone does not tell its type."""
    hint: Any = get_type_hints(cls, include_extras=True)[field.name]
    if msgspec.inspect.type_info(hint) != field.type:  # a variable of a type, say, for which another class has a type
        raise TypeError(f"{cls.__qualname__}.{field.name} is declared elsewhere")
    decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[hint])
    return decoder.decode


def _is_plain(cls: Any) -> bool:
    """Say whether objects can be made empty and then given their attributes, and nothing else belongs to making them."""
    if cls.__new__ is not object.__new__ or cls.__setattr__ is not object.__setattr__:  # frozen ones are slow to fill
        return False
    if dataclasses.is_dataclass(cls):
        fields = dataclasses.fields(cls)
        return all(field.init for field in fields) and len(fields) == len(cls.__dataclass_fields__)  # no InitVar
    attributes = getattr(cls, "__attrs_attrs__", ()) if _has_dict(cls) else ()  # msgspec fills those with slots as fast
    plain = all(a.init and a.converter is None and a.validator is None for a in attributes)
    return bool(attributes) and plain and not hasattr(cls, "__attrs_pre_init__")


def flat_type(type_: Any) -> tuple[type, bool]:
    """Return the kind of a field's type, and whether None is allowed beside it. Constraints are for msgspec."""
    if isinstance(type_, msgspec.inspect.UnionType):
        others = [part for part in type_.types if not isinstance(part, msgspec.inspect.NoneType)]
        if len(others) == 1 and type_.includes_none:
            return flat_type(others[0])[0], True
    constrained = any(getattr(type_, name) is not None for name in getattr(type_, "__struct_fields__", ()))
    return (object if constrained else type(type_)), False
