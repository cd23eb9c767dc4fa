"""Feed both twins the same random bytes and hold their answers against each other.

    python -m tests.codec.fuzz -runs=100000 FOLDER...   under atheris, guided by the coverage of C (make fuzz)
    python -m tests.codec.fuzz --seeds FOLDER SUITE     write what a fuzzer starts from: the kept inputs and JSONTestSuite

An input reads as in csrc/fuzz.c, so both fuzzers share their corpus: the first byte chooses what is tried, the second the
shape, the third (there) the rows; the rest is data. test_fuzz.py tries the kept inputs at every run of the tests. Python is
not instrumented: that would cost three quarters of the speed, and what it leads to is the same.
Rows are what Postgres could send: without control characters, so without a separator of ours inside.
"""

import struct
import sys
from pathlib import Path

import msgspec
import orjson

from fastq.args.kinds import Kind
from fastq.work.codec import core, twin
from fastq.work.codec.claimed import SEPARATOR
from tests.codec.claims import SHAPES
from tests.codec.differences import comparable, differ

DATA = Path(__file__).parent / "data"
HEADER = 3
KINDS = [Kind(f"{shape.__name__}{strict}", shape, forbid_unknown_keys=strict) for shape in SHAPES for strict in (False, True)]


def try_input(data: bytes) -> None:
    """Raise AssertionError where the twins differ."""
    if len(data) < HEADER:
        return
    choice, shape, rest = data[0] % 4, data[1], data[HEADER:]
    if choice == 0:
        try_grammar(rest)
    elif choice == 1:
        try_texts(rest, shape)
        try_numbers(rest)
    else:
        try_rows(KINDS[shape % len(KINDS)], rest)


def try_grammar(data: bytes) -> None:
    """Compare what the scanner takes for JSON with what orjson takes for it."""
    error = core.ffi.new("fq_error *")
    code = core.lib.fq_json_check(data, len(data), 1024, error)
    if code == core.lib.FQ_ROW_DEPTH or differ(data.decode("latin-1")):
        return
    assert (code == core.lib.FQ_OK) == accepted(orjson.loads, data), (code, data)


def accepted(loads, data) -> bool:
    try:
        loads(data)
    except ValueError:
        return False
    return True


def try_texts(data: bytes, shape: int) -> None:
    """Encode texts, with lone surrogates where the bytes are not UTF-8; the shape says how many bytes are kept, and nulls."""
    texts = [part.decode("utf-8", "surrogateescape") for part in data.split(b"\xff")]
    values = [None if shape & 16 and place % 2 else text for place, text in enumerate(texts)]
    assert core.encode_texts(values, shape & 15) == twin.encode_texts(values, shape & 15), values


def try_numbers(data: bytes) -> None:
    """Encode the bytes as whole numbers, floats and booleans."""
    whole = data[: len(data) // 8 * 8]
    ints = struct.unpack(f"{len(whole) // 8}q", whole)
    floats = struct.unpack(f"{len(whole) // 8}d", whole)
    bools = [byte % 2 == 1 for byte in data]
    assert core.encode_ints(ints) == twin.encode_ints(ints)
    assert core.encode_floats(floats) == twin.encode_floats(floats)
    assert core.encode_bools(bools) == twin.encode_bools(bools)


def try_rows(kind: Kind, data: bytes) -> None:
    """Decode a batch by column, whole, and row by row: what the last says is what args mean."""
    rows = [row.replace(SEPARATOR, b"") for row in data.split(twin.BETWEEN)]
    blob, count = twin.BETWEEN.join(rows), len(rows)
    single = [kind.codec.decode_at(place, row) for place, row in enumerate(rows)]
    expected = comparable((single, [place for place, one in enumerate(single) if isinstance(one, twin.ArgsError)]))
    whole = comparable(twin.read(kind.codec, blob, count))
    if whole != expected:  # halves of JSON that fit together: no column of Postgres has such rows
        assert not all(accepted(msgspec.json.Decoder(msgspec.Raw).decode, row) for row in rows), rows
        return
    mostly = core.MOSTLY
    core.MOSTLY = 1  # read by column whatever can be, however many rows are marked
    try:
        by_column = comparable(core.read(kind.codec, blob, count))
    finally:
        core.MOSTLY = mostly
    assert by_column == expected, rows


def write_seeds(folder: Path, suite: Path | None) -> None:
    """Write the kept inputs, and each file of the suite as a document, as a value of a field and under an unknown key."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in DATA.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    files = sorted(suite.glob("test_*/*.json")) if suite else []
    for number, path in enumerate(files):
        text = path.read_bytes()
        if len(text) <= 4096:  # two of them are 100 KB of brackets
            (folder / f"suite_{number}_document").write_bytes(b"\0\x10\0" + text)
            rows = b'{"n":1,"s":' + text + b'},\x1e{"n":' + text + b'},\x1e{"n":1,"f":' + text + b',"x":' + text + b"}"
            (folder / f"suite_{number}_rows").write_bytes(bytes([2, 2 * (number % len(SHAPES)), 2]) + rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seeds"]:
        write_seeds(Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] and sys.argv[3] else None)
    else:
        import atheris

        atheris.Setup(sys.argv, try_input)
        atheris.Fuzz()
