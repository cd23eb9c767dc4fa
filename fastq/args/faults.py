"""Find values in args that JSON cannot hold, and their fields: the slow half of args/text.py, with args/equal.py.

`fault_in_fields` runs each time that a worker is registered, in the thread that imports the application. The rest runs wherever
args, keys or outputs are examined, and mostly only when a cheap test gave cause: in the thread that enqueues; in the thread that
imports an application with periodic jobs; in the thread of a worker process that makes an outcome; in the producer's thread, for
the key of a job that came past its gates; and in a command that enqueues, or pauses or releases a key of a gate. Pure functions
over the user's values, which are read and never changed. Every walk keeps its own stack or stops at MAX_DEPTH, so args that
contain themselves end too.

It does not decide what may be enqueued (args/text.py does, by a round trip); it finds the first field to blame.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

MAX_DEPTH = 64  # far beyond args written by hand, far below what recursive readers (jsonb, Python) take
MIN_INT, MAX_INT = -(2**63), 2**64 - 1  # the range that JSON readers in other languages and orjson keep exactly
_SHOWN = 60  # characters of a value in a message


UNREADABLE = "the stored JSON cannot be read"
"""The reason of a refusal where the converter's own words may have a value that is hidden."""


class Fault(NamedTuple):
    """A field and the reason why it is bad."""

    field: str
    reason: str


def fault_in_json(tree: Any) -> Fault | None:
    """Find a value that Postgres or another reader would not take, in JSON as it would be stored."""
    for path, value, depth in walk(tree):
        if depth > MAX_DEPTH:
            return Fault("", f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
            return Fault(path, f"{show(value)} does not fit into 64 bits; expected -2**63 to 2**64-1, or a string")
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        if any("\0" in text for text in texts):
            return Fault(path, "a NUL character, which Postgres cannot store; remove it, or encode the text as base64")
    return None


def fault_in_numbers(args: Any) -> Fault | None:
    """Find a float that JSON cannot say and converters silently turn into null."""
    if any(depth > MAX_DEPTH for _, _, depth in walk(args)):
        return Fault("", f"nested deeper than {MAX_DEPTH} levels, or containing itself")
    return endless_number(args)


def endless_number(value: Any) -> Fault | None:
    """Find a NaN or an infinity down to MAX_DEPTH."""
    for path, part, _ in walk(value):
        if isinstance(part, float) and not math.isfinite(part):
            return Fault(path, f"{part!r} has no JSON form; expected a finite number, or None")
    return None


def fault_in_text(args: Any) -> Fault | None:
    """Find a string or a key that UTF-8 cannot hold."""
    for path, value, _ in walk(args):
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping) else []
        if any(isinstance(text, str) and any("\ud800" <= char <= "\udfff" for char in text) for text in texts):
            return Fault(path, "a lone surrogate, which UTF-8 cannot hold; expected well-formed text")
    return None


def fault_in_types(args: Any) -> Fault | None:
    """Find a value or a key of a type that msgspec does not write."""
    for path, value, _ in walk(args):
        if isinstance(value, Mapping):
            odd = next((key for key in value if not isinstance(key, str) and _unwritable({key: 0})), None)
            if odd is not None:
                return Fault(path, f"key {show(odd)} is a {type(odd).__qualname__}; JSON keys are strings")
        elif parts_in(value) is None:
            reason = _unwritable(value)
            if reason:
                return Fault(path, reason)
    return None


def fault_in_fields(type_: Any) -> str | None:
    """Say which field of a type can never be JSON, with any value; None if each can be, or if pydantic decides about it.

    A union may hold another of its types: it is examined when args are enqueued. So is a name that is not defined yet.
    """
    if hasattr(type_, "model_validate_json"):
        return None
    try:
        todo = [("", msgspec.inspect.type_info(type_))]
    except NameError:
        return None
    except TypeError as error:
        return f"{type_!r} cannot be read from JSON: {error}"
    seen: set[int] = set()
    while todo:
        path, kind = todo.pop()
        if isinstance(kind, msgspec.inspect.CustomType) and not hasattr(kind.cls, "__fastq_secret__"):
            name = getattr(kind.cls, "__qualname__", kind.cls)
            return f"field '{path}' is a {name}, which JSON cannot hold; give the job a key by which its worker finds the object"
        if id(getattr(kind, "cls", kind)) not in seen:
            seen.add(id(getattr(kind, "cls", kind)))
            todo += reversed([(f"{path}.{label}".strip("."), part) for label, part in _parts_of(kind)])
    return None


def _parts_of(kind: msgspec.inspect.Type) -> list[tuple[str, msgspec.inspect.Type]]:
    """Return the types that a type is made of, with a name for the place of each."""
    if fields := getattr(kind, "fields", None):
        return [(field.encode_name, field.type) for field in fields]
    if isinstance(kind, msgspec.inspect.DictType):
        return [("keys", kind.key_type), ("values", kind.value_type)]
    items = getattr(kind, "item_types", None) or [getattr(kind, "item_type", None)]
    return [("items", item) for item in items if item is not None]


def _unwritable(value: Any) -> str | None:
    """Say why JSON cannot hold a value."""
    try:
        msgspec.json.encode(value, enc_hook=as_plain)
    except Exception as error:  # noqa: BLE001 - a subclass's own conversion may raise anything
        reason = str(error)
        return reason[:1].lower() + reason[1:]
    return None


def as_known(value: object) -> int:
    """Give msgspec a number for one of a class of its own, which it refuses, such as the id that `enqueue` returns."""
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")  # as msgspec says it


def as_plain(value: Any) -> Any:
    """Give msgspec the value in a Secret, too: for digests, which show nothing."""
    return value.reveal() if hasattr(type(value), "__fastq_secret__") else as_known(value)


def show(value: Any) -> str:
    """Write a value for a message, shortened."""
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN:  # repr refuses numbers of many digits
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."


def walk(root: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield path, value and depth of everything in a value, parents first, one level beyond MAX_DEPTH at most."""
    stack: list[tuple[str, Any, int]] = [("", root, 0)]
    while stack:
        path, value, depth = stack.pop()
        parts = parts_in(value)
        level = depth + (parts is not None)
        yield path.removeprefix("."), value, level
        if parts and level <= MAX_DEPTH:
            stack.extend((path + label, part, level) for label, part in reversed(parts.items()))


def parts_in(value: Any) -> dict[str, Any] | None:
    """Return the parts of a value by their labels in a path; None if it has no parts."""
    if isinstance(value, Mapping):
        return {f".{key}" if isinstance(key, str) else f"[{key!r}]": part for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return {f"[{index}]": part for index, part in enumerate(value)}
    names = field_names(value)
    if names is None:
        return None
    return {f".{name}": getattr(value, name) for name in names if hasattr(value, name)}


def field_names(value: Any) -> list[str] | None:
    """Name the fields of an object of one of the sorts that args may have; None if it has none."""
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    if hasattr(type(value), "__attrs_attrs__"):
        return [attribute.name for attribute in type(value).__attrs_attrs__]
    if hasattr(type(value), "model_fields"):  # pydantic; the attributes outside its fields count in its own ==
        return [*type(value).model_fields, "__pydantic_extra__", "__pydantic_private__"]
    return None
