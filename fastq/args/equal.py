"""Tell whether the worker would see the args as they were given, else which field differs: the slow half of args/text.py.

The other module of that half is args/faults.py. Runs in the thread that enqueues, and in the thread that imports an application
with periodic jobs, where `==` says that the two differ, or where it does not look at everything. `leaves_fields_out` runs once
for each kind, in the thread that first needs its codec. Pure functions over the user's values, which are the caller's: they are
read and never changed; a value that is compared in another form is copied first.

A type's own `==` decides, but in three cases: a type that has none of its own is compared field by field; so are the fields that
a type leaves out of it; and datetimes with a zone are compared by the moments that they mean.
"""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import msgspec

from fastq.args.faults import MAX_DEPTH, Fault, field_names, parts_in, show, walk


def difference(came: Any, seen: Any, path: str = "", depth: int = 0) -> Fault | None:
    """Find the first field in which two values differ; None if they are the same, field by field."""
    if came == seen:
        return None
    left, right = parts_in(came), parts_in(seen)
    if left is None or right is None or type(came) is not type(seen) or depth > MAX_DEPTH:
        return _seen_as(path, came, seen)
    if isinstance(came, Mapping) and right.keys() < left.keys():
        lost = next(label for label in left if label not in right)
        return Fault((path + lost).removeprefix("."), "a worker would not see it; declare it in the type, or leave it out")
    if left.keys() != right.keys():
        return _seen_as(path, came, seen)
    for label, value in left.items():
        found = difference(value, right[label], path + label, depth + 1)
        if found is not None:
            return found
    # All parts are the same and yet the whole is not: that is the type's own word, unless it has none.
    if any(_compares_by_identity(value) for _, value, _ in walk(came)):
        return None
    return _seen_as(path, came, seen)


def moment_difference(came: Any, seen: Any, path: str = "") -> Fault | None:
    """Find the first field in which two values differ; datetimes that mean the same moment count as the same.

    In the hour that a zone repeats or skips Python calls two datetimes of different zones unequal even if they mean the same
    moment (PEP 495), and the JSON holds the offset, not the zone. So both are compared once more with their datetimes in UTC.
    """
    fault = difference(came, seen, path)
    return fault and difference(in_utc(came), in_utc(seen), path)


def hidden_difference(came: Any, seen: Any, path: str = "", depth: int = 0) -> Fault | None:
    """Find the first field in which two equal values differ after all, since their type leaves it out of its `==`."""
    if depth > MAX_DEPTH:
        return None
    hidden = uncompared(type(came))
    for name, left, right in _pairs(came, seen):
        fault = moment_difference(left, right, path + name) if name[1:] in hidden else None
        fault = fault or hidden_difference(left, right, path + name, depth + 1)
        if fault is not None:
            return fault
    return None


def _pairs(came: Any, seen: Any) -> list[tuple[str, Any, Any]]:
    """Return the parts of two equal values by twos, with their labels; an element or a key has its equal for a twin."""
    if isinstance(came, set | frozenset):
        twins = {part: part for part in seen}
        return [(f"[{part!r}]", part, twins.get(part, part)) for part in came]
    if isinstance(came, Mapping):
        return [(f"[{key!r}]", part, seen.get(key, part)) for key, part in came.items()]
    if isinstance(came, list | tuple):
        return [(f"[{index}]", *pair) for index, pair in enumerate(zip(came, seen, strict=False))]
    names = field_names(came) or []
    return [(f".{name}", getattr(came, name, None), getattr(seen, name, None)) for name in names]


def uncompared(cls: type) -> frozenset[str]:
    """Name the fields that a class leaves out of its `==`: `field(compare=False)`, and `eq=False` of attrs."""
    if hasattr(cls, "__attrs_attrs__"):
        return frozenset(attribute.name for attribute in cls.__attrs_attrs__ if not attribute.eq)
    if dataclasses.is_dataclass(cls):
        return frozenset(field.name for field in dataclasses.fields(cls) if not field.compare)
    return frozenset()


def leaves_fields_out(type_: Any) -> bool:
    """Tell whether a type, or one of those that its fields may have, leaves fields out of its `==`."""
    return any(isinstance(one, type) and uncompared(one) for one in types_in(type_))


def types_in(type_: Any) -> Iterator[Any]:
    """Yield a type and those that its fields may have, each once."""
    known: list[Any] = []  # not a set: an annotation may have no hash
    left = [type_]
    while left:
        one = left.pop()
        if any(one is other for other in known):
            continue
        known.append(one)
        yield one
        left += [*get_args(one), *_annotations(one)]


def _annotations(of: Any) -> list[Any]:
    """Return the types of a class's fields, none if they are unknown; for a type alias return the type behind it."""
    if hasattr(of, "__value__"):
        return [of.__value__]
    if not isinstance(of, type):
        return []
    if isinstance(fields := getattr(of, "model_fields", None), dict):  # pydantic's
        return [field.annotation for field in fields.values()]
    try:
        return list(get_type_hints(of).values())
    except Exception:  # noqa: BLE001 - a name that is not there: the converter reports it if it needs it
        return []


def in_utc(value: Any, depth: int = 0) -> Any:
    """Return the value as it is, or a copy whose datetimes with a zone are in UTC, so that the types' own `==` decides."""
    if isinstance(value, datetime):
        return _moment(value)
    parts = parts_in(value) if depth <= MAX_DEPTH else None
    if not parts:
        return value
    if isinstance(value, Mapping):
        pairs = {key: (in_utc(key, depth + 1), in_utc(part, depth + 1)) for key, part in value.items()}
        changed = any(moment is not key or now is not value[key] for key, (moment, now) in pairs.items())
        return _as_many(value, dict(pairs.values())) if changed else value
    moments = {label: in_utc(part, depth + 1) for label, part in parts.items()}
    if all(moment is parts[label] for label, moment in moments.items()):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        plain = next(sort for sort in (list, tuple, set, frozenset) if isinstance(value, sort))
        return _as_many(value, plain(moments.values()))
    return _with_fields(value, {label.removeprefix("."): moment for label, moment in moments.items()})


def _moment(value: datetime) -> datetime:
    if value.utcoffset() is None or value.tzinfo is UTC:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:  # in the first or the last hours that Python knows: then == decides
        return value


def _as_many(before: Any, now: Any) -> Any:
    """Return a container in UTC unless two of its keys or elements have become one: a worker would see fewer, so they differ."""
    return now if len(now) == len(before) else before


def _with_fields(value: Any, changed: dict[str, Any]) -> Any:
    """Copy an object with some of its fields changed, past the setters of its class: the copy is only compared."""
    try:
        made = copy.copy(value)
        for name, part in changed.items():
            if isinstance(made, msgspec.Struct):
                msgspec.structs.force_setattr(made, name, part)
            else:
                object.__setattr__(made, name, part)
    except Exception:  # noqa: BLE001 - a type that refuses to be copied or set: then its own == has decided already
        return value
    return made


def _seen_as(path: str, came: Any, seen: Any) -> Fault:
    types = "" if type(came) is type(seen) else f" ({type(came).__qualname__} and {type(seen).__qualname__})"
    reason = f"a worker would see {show(seen)} instead of {show(came)}{types}; declare the type it has, or convert it"
    if not types and repr(seen) == repr(came):
        reason = f"a worker would see a value that looks like {show(came)} and is not equal to it after its way through JSON"
    return Fault(path.removeprefix("."), reason)


def _compares_by_identity(value: Any) -> bool:
    if isinstance(value, msgspec.Struct):
        return not value.__struct_config__.eq
    equals: object = type(value).__eq__
    return equals is object.__eq__
