"""Write args as JSON and read them back, so that the worker sees args equal to the enqueued ones, or nothing is stored.

One `ArgsCodec` per kind. `encode` runs in the thread that enqueues, and in the thread that imports an application with periodic
jobs; the other methods run in the producer's thread of a worker process, where twin.py or core.py calls them, and `decode` in
`fastq enqueue` too; the functions below run in the threads of both. A codec has no state that changes: any number of threads may
share it.

The invariant is kept by construction, not by a list of forbidden things: the JSON is read with the worker's own decoder and
the result is compared with the args. Only faults that a round trip cannot show are looked for besides: NaN and infinity
(JSON has none, they turn into null, which an optional field takes), NUL (Postgres refuses it), whole numbers beyond 64
bits (not every reader keeps them) and nesting beyond MAX_DEPTH. Cheap tests of the bytes decide whether to look at all;
args/faults.py and args/equal.py then look, and name the field.

Equal means `==` as the type defines it, with the additions of args/equal.py.
Keys that the type does not know are ignored when reading, so that a new enqueuer and an old worker get on.

msgspec converts everything but pydantic models, which convert themselves: it is never imported here.
"""

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_origin, is_typeddict

import msgspec

from fastq.args.equal import hidden_difference, leaves_fields_out, moment_difference
from fastq.args.faults import (
    MAX_DEPTH,
    as_known,
    fault_in_json,
    fault_in_numbers,
    fault_in_text,
    fault_in_types,
)
from fastq.errors import ArgsError

A = TypeVar("A")

_write: msgspec.json.Encoder = msgspec.json.Encoder(enc_hook=as_known)
_read_any: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_read_keys: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])

_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19  # a number beyond 64 bits has at least 19 digits; bytes.translate finds them at 1 ns a byte
_NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"\\'))
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")  # a float64 of MessagePack with all bits of the exponent set
_MSGSPEC_MISSING = re.compile(r"missing required field `(.*)`$", re.DOTALL)
_MSGSPEC_VALUE = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)  # the value follows, which is not for the log
_MSGSPEC_FIELD = re.compile(r" - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)


class ArgsCodec(Generic[A]):
    """Convert the args of one kind to JSON and back."""

    as_written = True
    """Stored args are what this type is in JSON, so that they may be read by column (work/codec/core.py)."""

    def __init__(self, kind: str, type_: type[A], *, forbid_unknown_keys: bool = False) -> None:
        self.kind = kind
        self.type = type_
        self.forbid_unknown_keys = forbid_unknown_keys
        self._pydantic = hasattr(type_, "model_validate_json")
        self._leaves_out = leaves_fields_out(type_)
        self._class: type = dict if is_typeddict(type_) else get_origin(type_) or type_
        self._to_json: Callable[[A], bytes]
        self._from_json: Callable[[bytes], A]
        self._read_batch: Callable[[bytes], list[A]] | None = None
        try:
            self._known = _known(type_) if forbid_unknown_keys else None
            if self._pydantic:
                self._to_json = _dump_model
                self._from_json = type_.model_validate_json  # type: ignore[attr-defined]
            else:
                self._to_json = _write.encode
                self._from_json = msgspec.json.Decoder(type_).decode
                self._read_batch = msgspec.json.Decoder(list[type_]).decode  # type: ignore[valid-type]
        except (TypeError, NameError) as error:
            raise ArgsError(kind, f"{type_!r} cannot be read from JSON: {error}") from error

    def encode(self, args: A, max_bytes: int | None = None) -> bytes:
        """Write args as JSON, or raise ArgsError if the worker would not see them equal."""
        if not isinstance(args, self._class):
            raise ArgsError(self.kind, f"expected {self._class.__qualname__}, got {type(args).__qualname__}")
        try:
            encoded: bytes = self._to_json(args)
            self._check_size(encoded, max_bytes)
            seen = self._from_json(encoded)
            equal = bool(seen == args)
        except ArgsError:
            raise
        except Exception as error:  # noqa: BLE001 - any: a type's own conversion may raise anything
            raise self._refusal(args, error) from _cause(error)
        if not equal or self._leaves_out or _suspicious(args, encoded) or (self._pydantic and _has_constants(encoded)):
            self._examine(args, seen, encoded, equal=equal)
        if self._known is not None:
            self._check_keys(encoded)
        return encoded

    def plain(self, args: A) -> bytes:
        """Write args as JSON to make digests of."""
        return self.encode(args)

    def digest(self, args: A) -> bytes:
        """Return bytes that are the same for the same args, and tell nothing of those that are encrypted."""
        return self.encode(args)

    def opened(self, encoded: bytes) -> bytes:
        """Return stored JSON as the JSON of the type: of args that are encrypted, decrypted."""
        return encoded

    def decode(self, encoded: bytes) -> A:
        """Read the args of one job, or raise ArgsError that names the field."""
        try:
            if self._known is not None:
                self._check_keys(encoded)
            args: A = self._from_json(encoded)
        except ArgsError:
            raise
        except BaseException as error:  # noqa: BLE001 - a type of the user's may raise SystemExit too: it must not end the producer
            raise self._unreadable(error) from _cause(error)
        return args

    def decode_whole(self, blob: bytes) -> list[A] | None:
        """Read one JSON array at once; None if they have to be read one by one, to find which is bad or at all."""
        if self._read_batch is None or self._known is not None:
            return None
        try:
            return self._read_batch(blob)
        except BaseException:  # noqa: BLE001 - bad elements, or a type that raises anything at all
            return None

    def decode_at(self, position: int, encoded: bytes) -> A | ArgsError:
        """Read the args of one job of a batch; a bad one becomes its ArgsError."""
        try:
            return self.decode(encoded)
        except ArgsError as error:
            # A new one, without the traceback: it outlives this call, and must not keep the batch alive.
            return ArgsError(error.kind, error.reason, field=error.field, position=position)

    def _check_size(self, encoded: bytes, max_bytes: int | None) -> None:
        if max_bytes is not None and len(encoded) > max_bytes:
            reason = f"{len(encoded)} bytes of JSON, {max_bytes} allowed; store the data elsewhere and enqueue its key"
            raise ArgsError(self.kind, reason)

    def _check_keys(self, encoded: bytes) -> None:
        keys = _read_keys.decode(encoded).keys()
        unknown = next((key for key in keys if key not in (self._known or ())), None)
        if unknown is not None:
            known = ", ".join(sorted(self._known or ()))
            raise ArgsError(self.kind, f"unknown key; forbid_unknown_keys allows only: {known}", field=unknown)

    def _examine(self, args: A, seen: A, encoded: bytes, *, equal: bool) -> None:
        """Raise ArgsError if there is a fault after all."""
        fault = fault_in_numbers(args) if b"null" in encoded else None
        if fault is None:
            try:
                fault = fault_in_json(_read_any.decode(encoded))
            except (msgspec.DecodeError, RecursionError) as error:  # pydantic can be told to write NaN
                raise self._refusal(args, error) from _cause(error)
        if fault is None and not equal:
            fault = moment_difference(args, seen)
        if fault is None and self._leaves_out:
            fault = hidden_difference(args, seen)
        if fault is not None:
            raise ArgsError(self.kind, fault.reason, field=fault.field)

    def _refusal(self, args: A, error: Exception) -> ArgsError:
        """Explain why args could not be written, or written but not read."""
        if isinstance(error, RecursionError):
            return ArgsError(self.kind, f"nested deeper than {MAX_DEPTH} levels, or containing itself")
        fault = fault_in_numbers(args) or fault_in_text(args) or (None if self._pydantic else fault_in_types(args))
        if fault is not None:
            return ArgsError(self.kind, fault.reason, field=fault.field)
        return self._unreadable(error)

    def _unreadable(self, error: BaseException) -> ArgsError:
        """Turn a converter's error into ours, with the field."""
        field, reason = "", _text_of(error)
        if isinstance(error, msgspec.MsgspecError):
            found = _MSGSPEC_FIELD.search(reason)
            if found:
                field, reason = found[1], reason[: found.start()]
            missing = _MSGSPEC_MISSING.search(reason)
            if missing:
                field = f"{field}.{missing[1]}"
            if error.__cause__ is None:  # the user's own words otherwise
                reason = _MSGSPEC_VALUE.sub(r"\1", reason)
        elif self._pydantic and (errors := getattr(error, "errors", None)) is not None:
            first = errors()[0]
            field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            reason = f"{first['msg']}, got a {type(first['input']).__name__}"  # not the value: this goes to the log
        return ArgsError(self.kind, reason[:1].lower() + reason[1:], field=field.removeprefix("."))


def _cause(error: BaseException) -> BaseException | None:
    """Return the error of a type's own code, which a traceback may show; None for a converter's own error: it quotes args."""
    if isinstance(error, msgspec.MsgspecError):
        return error.__cause__
    return None if hasattr(error, "errors") else error


def _text_of(error: BaseException) -> str:
    """Return the text of an error; code of the user's may have raised it, and may raise while it makes the text."""
    raised = f"raised {type(error).__name__}"
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - it may raise anything there, too
        return f"{raised}, whose text could not be made"
    if isinstance(error, Exception):
        return text or raised
    return f"{raised}: {text}"


def _suspicious(args: Any, encoded: bytes) -> bool:
    """Say whether there may be a fault that a round trip does not show; never False if there is one."""
    long_number = len(encoded) > len(_LONG_NUMBER) and _LONG_NUMBER in encoded.translate(_AS_ZEROS)
    return (
        b"\\u0000" in encoded
        or ((long_number or b"null" in encoded) and _odd_number(args))
        or (len(encoded) > 2 * MAX_DEPTH and _deep(encoded))
    )


def _odd_number(args: Any) -> bool:
    """Say whether there may be a float that is not finite or a whole number beyond 64 bits.

    MessagePack refuses the latter and writes floats as they are, so that one search finds the former: 0.5 us for args
    that merely have a field with None, instead of a walk through them.
    """
    try:
        return _NOT_FINITE.search(msgspec.msgpack.encode(args)) is not None
    except Exception:  # noqa: BLE001 - a number beyond 64 bits, a pydantic model, anything else: look closer
        return True


def _deep(encoded: bytes) -> bool:
    """Say whether the nesting may be too deep: take the innermost brackets away until none are left."""
    if encoded.count(b"[") + encoded.count(b"{") <= MAX_DEPTH:
        return False
    # Of a string without brackets and escapes only "" is left. An odd number of quotes stands before a bracket inside
    # a string, so that one of them stays: then the bytes do not tell.
    brackets = encoded.translate(_AS_SQUARE, _NO_BRACKETS).replace(b'""', b"")
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _has_constants(encoded: bytes) -> bool:
    """Say whether there may be a NaN or an Infinity: neither is JSON, and yet pydantic can be told to write them."""
    return b"NaN" in encoded or b"Infinity" in encoded


def _dump_model(model: Any) -> bytes:
    # round_trip: leave out fields of the output alone; by_alias: the names that validation expects; no warnings: we compare.
    dumped: str = model.model_dump_json(round_trip=True, by_alias=True, warnings="none")
    return dumped.encode()


def field_names(type_: Any) -> list[str] | None:
    """Name the keys that a type has in JSON, in its order; None if it tells no fields: a mapping, a pydantic model."""
    fields = getattr(msgspec.inspect.type_info(type_), "fields", None)
    return None if fields is None else [field.encode_name for field in fields]


def _known(type_: Any) -> frozenset[str]:
    names = field_names(type_)
    if names is None:
        raise TypeError("forbid_unknown_keys needs a type with fields")
    return frozenset(names)
