"""The codec through the C core: the answers of twin.py, faster. csrc/README.md tells which path wins where.

C reads args (csrc/fastq.h) by column, without the interpreter lock; here the columns become lists in a few calls each,
and the lists become objects. Of a field that is not flat (a list, a time, an object) C gives the bytes of the values, and
msgspec reads the whole column in one call. A row that C marks, a batch that is mostly such rows, a value or a `__post_init__`
that raises: the Python twin reads those. Types whose objects cannot be filled never come here, nor those without a flat field:
msgspec's whole-batch decoder is the best there is for them.
Sizes are checked before each call, its code after it. `read` runs in the producer's thread of a worker process, the encoders in
that thread and in the completer's, all by codec.py. The plans of the kinds are the only state. A plan is filled in by the first
thread that needs it, always with the same values, so any thread may read it; its spare room is taken out by the call that uses
it, and put back behind it; all else belongs to one call.

shapes.py says which classes these are, and makes the functions that fill their objects.
"""

from __future__ import annotations

import dataclasses
from array import array
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import NODEFAULT

from fastq._fastq import ffi, lib
from fastq.errors import ArgsError
from fastq.work.codec import twin
from fastq.work.codec.claimed import BETWEEN
from fastq.work.codec.shapes import FLAT, fewest, fields_of, filler, flat_type, reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.args.text import ArgsCodec

MOSTLY = 4
"""A batch with more than one marked row in so many is read by the twin as a whole."""

ABI = 2
"""The version of the contract (csrc/fastq.h) that this module keeps."""

SPARE = 8_192
"""Words of room that a plan keeps for its next small batch: without that, a call costs a third more before the first job."""

SIZE_LIMIT = 2**31
"""Bytes of a blob from which on the twin takes it; a claim is bounded far below (`prefetch_bytes`)."""

Column = tuple[int, Literal["q", "d", "?"]]
_TYPES: dict[type, Column] = dict(
    zip(FLAT, ((lib.FQ_INT, "q"), (lib.FQ_FLOAT, "d"), (lib.FQ_BOOL, "?"), (lib.FQ_TEXT, "q")), strict=True)
)
_RAW: Column = (lib.FQ_RAW, "q")
if lib.FQ_ABI != ABI:
    raise ImportError("the C core is of another version: build it again, with make build")


class _Plan:
    """How the args of a kind are read by column: made once per kind."""

    def __init__(self, cls: type, fields: Sequence[msgspec.inspect.Field], *, forbid_unknown_keys: bool) -> None:
        self._cls = cls
        self._fill = filler([field.name for field in fields])
        self._filled = False  # one object of the class has been; set by the first thread
        self._after = getattr(cls, "__post_init__" if dataclasses.is_dataclass(cls) else "__attrs_post_init__", None)
        self.width = len(fields)
        self.fewest = fewest(cls, fields)
        self.forbid = forbid_unknown_keys
        self.defaults = [(field.default, field.default_factory) for field in fields]
        flat = [flat_type(field.type) for field in fields]
        self.types = [_TYPES.get(type_, _RAW) for type_, _ in flat]
        self.readers = {number: reader(cls, field) for number, field in enumerate(fields) if self.types[number] is _RAW}
        self.spare: list[_Room] = []  # one at most
        self._names = [ffi.from_buffer(field.encode_name.encode()) for field in fields]  # C points there
        self.specs = ffi.new("fq_field[]", self.width)
        for spec, field, name, (type_, nullable) in zip(self.specs, fields, self._names, flat, strict=True):
            spec.name, spec.name_size = name, len(name)
            spec.type, spec.nullable, spec.required = _TYPES.get(type_, _RAW)[0], nullable, field.required

    def build(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """Make the objects; raises any exception of a `__post_init__`.

        CPython keeps the names of attributes with the class, where each new object leaves room for one less: of a thousand made
        before any had attributes, each would get a dict of its own, for ever (0.44 us a job instead of 0.29).
        """
        if not self._filled:
            self._fill([object.__new__(self._cls)], *[column[:1] for column in columns])
            self._filled = True
        made: list[Any] = list(map(object.__new__, repeat(self._cls, len(columns[0]))))
        self._fill(made, *columns)
        if self._after is not None:
            for one in made:
                self._after(one)
        return made


_plans: WeakKeyDictionary[ArgsCodec[Any], _Plan | None] = WeakKeyDictionary()  # written by the first thread; plans are equal


def plan_of(codec: ArgsCodec[Any]) -> _Plan | None:
    """Return how to read the args of a kind by column; None where msgspec does it better or alone can."""
    if codec not in _plans:
        _plans[codec] = _make_plan(codec)
    return _plans[codec]


def _make_plan(codec: ArgsCodec[Any]) -> _Plan | None:
    fields = fields_of(codec)
    if fields is None or len(fields) > lib.FQ_MAX_FIELDS:
        return None
    try:
        return _Plan(codec.type, fields, forbid_unknown_keys=codec.forbid_unknown_keys)
    except (TypeError, NameError, RecursionError):  # the type of a field cannot be told alone
        return None


def worth(codec: ArgsCodec[Any], count: int) -> bool:
    """Tell whether C reads the args of so many jobs of a kind faster than the twin."""
    plan = plan_of(codec)
    return plan is not None and count >= plan.fewest


def read(codec: ArgsCodec[Any], blob: bytes, count: int) -> tuple[list[Any], list[int]]:
    """Read the args of `count` jobs of a kind; a bad one becomes its ArgsError, and its row is named."""
    plan = plan_of(codec) if len(blob) < SIZE_LIMIT else None
    columns = _Columns(plan, blob, count) if plan is not None else None
    if plan is None or columns is None or not columns.usable:
        return twin.read(codec, blob, count)
    try:
        values = columns.lists()
        if not columns.bad:
            columns.leave()
            return plan.build(values), []
        good, marked = columns.good_and_marked()
        args = plan.build([list(compress(column, good)) for column in values])
    except BaseException:  # noqa: BLE001 - any of a factory or a `__post_init__` of the user's; the twin finds the row
        return twin.read(codec, blob, count)
    elements = blob.split(BETWEEN)
    for row in marked:
        args.insert(row, codec.decode_at(row, elements[row]))
    return args, [row for row in marked if type(args[row]) is ArgsError]


_ONE_IF_OK = bytes(code == lib.FQ_OK for code in range(256))
_allocate = ffi.new_allocator(should_clear_after_alloc=False)


class _Room:
    """Memory for the columns of a batch, and what C is told about it."""

    def __init__(self, width: int, words: int) -> None:
        self.words = words
        memory = _allocate("uint64_t[]", words)
        self.view = memoryview(ffi.buffer(memory))  # keeps the memory
        self.start = ffi.cast("char *", memory)
        self.sizes = ffi.new("size_t[]", 2 * width)
        self.out, self.error = ffi.new("fq_columns *"), ffi.new("fq_error *")
        self.out.values, self.out.text_ends, self.out.odd = memory, self.sizes, self.sizes + width


class _Columns:
    """The columns that C made of a blob. One block of memory, in the sections that fq_columns names."""

    def __init__(self, plan: _Plan, blob: bytes, count: int) -> None:
        width = plan.width
        self._plan, self._count = plan, count
        self._flags_at = 8 * width * count
        self._codes_at = self._flags_at + width * count
        self._text_at = self._codes_at + count
        capacity = len(blob) + width * count
        self._room = room = _room_of(plan, (self._text_at + capacity) // 8 + 1)
        self._view, start, out = room.view, room.start, room.out
        out.flags, out.row_codes, out.text = start + self._flags_at, start + self._codes_at, start + self._text_at
        out.text_capacity = capacity
        code = lib.fq_decode_flat(blob, len(blob), count, plan.specs, width, plan.forbid, out, room.error)
        self.bad: int = out.bad
        self.usable = code == lib.FQ_OK and self.bad * MOSTLY <= count
        if self.usable:
            numbers = ffi.unpack(room.sizes, 2 * width)
            self._ends, self._odd = [*numbers[:width], 0], numbers[width:]  # [-1] is where the first text begins

    def leave(self) -> None:
        """Leave the room to the next batch, if it is small; nothing here is of use any more."""
        if self._room.words <= SPARE and not self._plan.spare:
            self._plan.spare.append(self._room)

    def good_and_marked(self) -> tuple[bytes, list[int]]:
        """Return 1 for each row that C read and 0 for the others, and the numbers of the others."""
        codes = bytes(self._view[self._codes_at : self._text_at])
        return codes.translate(_ONE_IF_OK), list(compress(range(self._count), codes))

    def lists(self) -> list[list[Any]]:
        """Return the values, field by field."""
        return [self._list(field) for field in range(self._plan.width)]

    def _list(self, field: int) -> list[Any]:
        count, odd = self._count, self._odd[field]
        type_, format_ = self._plan.types[field]
        flags = bytes(self._view[self._flags_at + field * count :][:count]) if odd else b""
        if odd == count and flags.count(lib.FQ_NULL) == count:
            return [None] * count
        values: list[Any]
        if type_ == lib.FQ_TEXT:
            values = self._text(field).split("\0")
            values.pop()
        elif type_ == lib.FQ_RAW:
            values = self._raw(field, count - odd)
            return self._spread(values, flags, field) if odd else values
        else:
            start = 8 * field * count
            values = self._view[start : start + (count if format_ == "?" else 8 * count)].cast(format_).tolist()
        if odd:
            self._patch(values, flags, field)
        return values

    def _text(self, field: int) -> str:
        start, end = self._ends[field - 1], self._ends[field]
        return str(self._view[self._text_at + start : self._text_at + end], "utf-8")

    def _raw(self, field: int, count: int) -> list[Any]:
        """Read the values of a field that is not flat."""
        start, end = self._ends[field - 1], self._ends[field]
        if start == end:
            return []
        column = self._view[self._text_at + start : self._text_at + end - 1]  # without the last comma
        values = self._plan.readers[field](b"".join((b"[", column, b"]")))
        if len(values) != count:
            raise ValueError(f"the column of a field has {len(values)} values, {count} were counted")
        return values

    def _spread(self, values: list[Any], flags: bytes, field: int) -> list[Any]:
        """Return the values of all rows, where some have none."""
        given, (default, factory) = iter(values), self._plan.defaults[field]
        made: list[Any] = []
        for flag in flags:
            if flag == lib.FQ_VALUE:
                made.append(next(given))
            elif flag == lib.FQ_NULL:  # the row is marked
                made.append(None)
            else:
                made.append(default if factory is NODEFAULT else factory())
        return made

    def _patch(self, values: list[Any], flags: bytes, field: int) -> None:
        """Put in the values that C leaves out: nulls, defaults, floats that Python's own parser rounds."""
        rows = range(self._count)
        digits = iter(self._text(field).split("\0"))
        default, factory = self._plan.defaults[field]
        for row in compress(rows, flags):
            flag = flags[row]
            if flag == lib.FQ_NULL:
                values[row] = None
            elif flag == lib.FQ_DIGITS:
                values[row] = float(next(digits))
            else:
                values[row] = default if factory is NODEFAULT else factory()


def _room_of(plan: _Plan, words: int) -> _Room:
    """Return room for so many words: what the plan has to spare, or new one."""
    if words > SPARE:
        return _Room(plan.width, words)
    try:
        return plan.spare.pop()
    except IndexError:  # the first batch, or another thread has it
        return _Room(plan.width, SPARE)


def encode_ints(values: Sequence[int]) -> bytes:
    """Encode a bigint[] in Postgres' binary format."""
    return _encode(lib.FQ_INT, len(values), array("q", values), 20 + 12 * len(values))


def encode_floats(values: Sequence[float]) -> bytes:
    """Encode a float8[]."""
    return _encode(lib.FQ_FLOAT, len(values), array("d", values), 20 + 12 * len(values))


def encode_bools(values: Sequence[bool]) -> bytes:
    """Encode a boolean[]."""
    return _encode(lib.FQ_BOOL, len(values), bytes(values), 20 + 5 * len(values))


def encode_texts(values: Sequence[str | None], cap: int = 0) -> bytes:
    """Encode a text[]: characters that Postgres cannot store become U+FFFD; of each text at most `cap` bytes are kept."""
    count = len(values)
    nulls = None
    if None in values:
        nulls = bytes([value is None for value in values])
        values = [value or "" for value in values]
    texts: Sequence[Any] = values
    joined = "\0".join(texts)
    if joined.count("\0") >= max(count, 1):
        joined = "\0".join([text.replace("\0", "\ufffd") for text in texts])
    encoded = joined.encode("utf-8", "surrogatepass")
    return _encode(lib.FQ_TEXT, count, encoded, 20 + 4 * count + len(encoded), nulls, cap)


def _encode(type_: int, count: int, data: Any, capacity: int, nulls: bytes | None = None, cap: int = 0) -> bytes:
    """Call C for one array. `capacity` is never short: a surrogate and its replacement both have three bytes."""
    source = ffi.from_buffer(data)
    marks = ffi.NULL if nulls is None else ffi.from_buffer("uint8_t[]", nulls)
    spec = ffi.new("fq_array *", (type_, source, len(source), marks, cap))
    out = bytearray(capacity)
    ends, size = ffi.new("size_t *"), ffi.new("size_t *")
    code = lib.fq_encode(spec, 1, count, ffi.from_buffer(out), capacity, ends, size)
    if code != lib.FQ_OK:
        raise ValueError(f"the C core refused an array of type {type_} with {count} elements: code {code}")
    return bytes(memoryview(out)[: size[0]])
