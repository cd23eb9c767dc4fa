"""Write the value of a step as JSON, and read it again as the type that its function returns.

Run in the thread or on the event loop that executes the job. Pure functions.

Invariant: what a step gives back has always been JSON, in the run that does it too. So a tuple without a type comes as a list
from the first run on, and not from the first crash on.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import msgspec

from fastq.errors import StepError
from fastq.results import encoding
from fastq.texts import clean, name_of, text_of, without_nul

MAX_VALUE = 262_144
"""Bytes of JSON that one record may hold: as many as the output of a job. A larger value belongs into a store of yours."""

PLAIN: Any = object()
"""In place of a type: the value comes back as JSON has it."""

_read_raw = msgspec.json.Decoder(msgspec.Raw).decode
_read_plain = msgspec.json.Decoder().decode


def written(what: str, value: object) -> str:
    """Write a value; StepError if JSON cannot hold it, or if it is too large."""
    try:
        text = encoding.written(value)
        _read_raw(text)
        fault = encoding.endless(value) if b"null" in text else None
    except BaseException as error:  # noqa: BLE001 - any object may come, and its code may raise anything
        raise StepError(f"{what}: expected a value that JSON can hold, got {name_of(value)}: {text_of(error)}") from None
    if fault is not None:
        raise StepError(f"{what}: expected a value that JSON can hold: {fault.field or 'the value'}: {fault.reason}")
    if len(text) > MAX_VALUE:
        raise StepError(
            f"{what}: expected at most {MAX_VALUE} bytes of JSON, got {len(text)}; put the value into a store of yours, and "
            "return its name there"
        )
    return without_nul(clean(text.decode()))


def read(what: str, text: str, type_: Any) -> Any:
    """Read a value as a type; StepError if it does not fit."""
    if type_ is PLAIN:
        return _read_plain(text)
    try:
        return encoding.typed(type_).read(text)
    except BaseException as error:  # noqa: BLE001 - a type of the user's may raise anything
        name = getattr(type_, "__qualname__", type_)
        raise StepError(f"{what}: its value is remembered and is no {name}: {text_of(error)}; have the type take it") from None


def returned(what: str, function: Callable[..., Any]) -> Any:
    """Return the type that a function declares to return, PLAIN if it declares none."""
    target: Any = function
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not hasattr(target, "__annotations__"):  # an object that is called
        target = getattr(type(target), "__call__", target)  # noqa: B004 - its annotations are wanted
    if "return" not in getattr(target, "__annotations__", {}):
        return PLAIN
    try:
        type_ = typing.get_type_hints(target)["return"]
    except Exception as error:  # noqa: BLE001 - a name that is not there, a module of the user's that raises
        raise StepError(
            f"{what}: the type that {name_of(target)} {getattr(target, '__qualname__', '')} returns cannot be looked up "
            f"({text_of(error)}); define that type at the top of the module"
        ) from None
    return PLAIN if type_ is Any or isinstance(type_, typing.TypeVar) else type_


def like(value: object) -> Any:
    """Return the type of values that come after this one: its own; a number may be followed by any number."""
    return PLAIN if value is None or isinstance(value, bool | int | float) else type(value)
