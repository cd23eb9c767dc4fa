"""The codec in Python: the specification of decoding and encoding, the fallback if the C core was not built, and its oracle.

`read` runs in the producer's thread of a worker process, the encoders in that thread and in the completer's, all by codec.py.
Pure functions of bytes and plain values, which keep nothing. The C twin (core.py) must give equal answers for every input; tests
compare them. A twin deliberately knows neither claims nor jobs: codec.py makes the jobs, and asks a twin for the args of a kind.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from fastq.errors import ArgsError
from fastq.texts import clean
from fastq.work.codec.claimed import BETWEEN, SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.args.text import ArgsCodec

BOOL, INT8, TEXT, FLOAT8 = 16, 20, 25, 701
"""The oids of these types, in every Postgres."""

_CONTINUES = range(0x80, 0xC0)  # a byte of UTF-8 that does not begin a character


def read(codec: ArgsCodec[Any], blob: bytes, count: int) -> tuple[list[Any], list[int]]:
    """Read the args of `count` jobs of a kind; a bad one becomes its ArgsError, and its row is named."""
    args = codec.decode_whole(b"[" + blob.replace(SEPARATOR, b"") + b"]")
    if args is not None and len(args) == count:
        return args, []
    found = [codec.decode_at(row, element) for row, element in enumerate(blob.split(BETWEEN))]
    return found, [row for row, value in enumerate(found) if type(value) is ArgsError]


def worth(codec: ArgsCodec[Any], count: int) -> bool:
    """Tell that these args are not for another twin than this one."""
    del codec, count
    return False


def encode_ints(values: Sequence[int]) -> bytes:
    """Encode a bigint[] in Postgres' binary format."""
    return _fixed(INT8, 8, "iq", values)


def encode_floats(values: Sequence[float]) -> bytes:
    """Encode a float8[]."""
    return _fixed(FLOAT8, 8, "id", values)


def encode_bools(values: Sequence[bool]) -> bytes:
    """Encode a boolean[]."""
    return _fixed(BOOL, 1, "i?", values)


def encode_texts(values: Sequence[str | None], cap: int = 0) -> bytes:
    """Encode a text[]: characters that Postgres cannot store become U+FFFD; of each text at most `cap` bytes are kept."""
    count = len(values)
    parts = [_header(TEXT, count, nulls=None in values)]
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            encoded = _capped(clean(value).encode(), cap)
            parts.append(struct.pack(">i", len(encoded)) + encoded)
    return b"".join(parts)


def _capped(encoded: bytes, cap: int) -> bytes:
    if not cap or len(encoded) <= cap:
        return encoded
    end = cap
    while encoded[end] in _CONTINUES:
        end -= 1
    return encoded[:end]


def _header(oid: int, count: int, *, nulls: bool = False) -> bytes:
    """Make the header of an array: dimensions, whether there are nulls, the type; length and lower bound if it is not empty."""
    return struct.pack(">5i", 1, nulls, oid, count, 1) if count else struct.pack(">3i", 0, 0, oid)


def _fixed(oid: int, size: int, element: str, values: Sequence[float]) -> bytes:
    count = len(values)
    mixed: list[float] = [size, 0] * count
    mixed[1::2] = values
    return _header(oid, count) + struct.pack(">" + element * count, *mixed)
