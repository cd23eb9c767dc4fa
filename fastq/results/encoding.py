"""Write the value that `work` returned as JSON, and read it again as the type that was declared for it.

`written` runs in the thread or on the event loop that has executed the job; `Typed.read` in a program that waits for the job. No
state but the converters of types, which are made once.

Two libraries, each for what the other does not do:

- msgspec writes values, and reads those with a declared type: so a program that waits gets the dataclass, the datetime, the
  Decimal again that the worker has returned, and the worker learns whether the value fits. It bears an attribute that raises, of
  any object.
- orjson writes the arrays and the scalars of numpy within a value, without making an object of each number. It writes nothing
  else: version 3.13 ends the whole process by a segmentation fault where a time zone or the `value` of an enum raises
  (docs/adr/0029).

Invariant: no value ends the process. NaN is written as `null`, which `endless` looks for. The module deliberately catches almost
nothing: any object may come back from `work`, and its code may raise anything.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from fastq.args.faults import Fault, as_known, endless_number, field_names, walk
from fastq.texts import text_of

R = TypeVar("R")

WRITTEN = frozenset("biuf")
"""The kinds of dtypes that orjson writes: truth values, whole numbers with and without a sign, floats."""

WIDEST = 8
"""Bytes of the widest number that it writes."""


def written(value: object) -> bytes:
    """Write a value, whatever type is declared for it."""
    try:
        return msgspec.json.encode(value, enc_hook=as_known)
    except TypeError:
        return msgspec.json.encode(_copied(value), enc_hook=as_known)


def _copied(value: Any) -> Any:
    """Copy what holds a value together, with everything in it that msgspec does not know as something that it does.

    A conversion runs code of others, and other threads meanwhile: so no list is walked through that one of these may change.
    """
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.copy().items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_copied(part) for part in tuple(value)]
    if _is_array(value):
        return _numbers(value)
    if hasattr(type(value), "model_dump"):  # pydantic
        return value.model_dump(mode="json", by_alias=True, round_trip=True, warnings="none")
    if isinstance(value, msgspec.Struct) or not (names := field_names(value)):
        return value
    return {name: _copied(getattr(value, name)) for name in names if hasattr(value, name)}


def _numbers(array: Any) -> Any:
    """Return an array, or a scalar of one, as JSON if orjson can write it, else as plain values."""
    dtype = array.dtype
    simple = type(array).__module__ == "numpy" and dtype.kind in WRITTEN and dtype.isnative and dtype.itemsize <= WIDEST
    if simple and array.flags.c_contiguous and (array.ndim or not hasattr(array, "__setitem__")):  # one without axes is a box
        return msgspec.Raw(orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY))
    return array.tolist()


def endless(value: object) -> Fault | None:
    """Find a NaN or an infinity, in arrays too; to be asked where the JSON has a `null`."""
    for path, part, _ in walk(value):
        if fault := endless_number(part.tolist() if _is_array(part) else part if isinstance(part, float) else None):
            return Fault(path + fault.field, fault.reason)
    return None


def _is_array(value: Any) -> bool:
    """Tell whether it is an array or a scalar of numpy, or of a library that goes by its rules."""
    return hasattr(type(value), "__array__") and hasattr(value, "tolist")


class Typed(Generic[R]):
    """Read values of one declared type."""

    def __init__(self, type_: type[R]) -> None:
        self.type = type_
        model: Any = getattr(type_, "model_validate_json", None)  # pydantic
        self._read = model or msgspec.json.Decoder(type_, dec_hook=_of_other).decode

    def read(self, text: str | bytes) -> R:
        """Read a value; raise the converter's error if it does not fit."""
        read: R = self._read(text)
        return read


@cache
def typed(type_: Any) -> Typed[Any]:
    """Return the converter of a type; TypeError or NameError if no value of that type can be read from JSON."""
    return Typed(type_)


def misfit(text: str, type_: Any) -> str | None:
    """Say why an output does not fit the type that is declared for it; None if it does."""
    try:
        typed(type_).read(text)
    except BaseException as error:  # noqa: BLE001 - a type of the user's may raise anything
        return text_of(error)
    return None


def _of_other(type_: Any, value: Any) -> Any:
    """Make a value of a type that msgspec does not know, from plain values."""
    if hasattr(type_, "model_validate"):  # pydantic
        return type_.model_validate(value)
    if hasattr(type_, "__array__"):  # numpy
        import numpy as np  # noqa: PLC0415 - the program that declared it has it

        return np.asarray(value)
    raise TypeError(f"a {getattr(type_, '__qualname__', type_)} cannot be made of JSON")
