"""The C core by itself: its contract, its warnings, its fuzzer, and the choice between the twins."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastq.args.kinds import Kind
from fastq.errors import ConfigError
from fastq.work.codec import codec as door
from tests.codec.claims import Attrs, Flat, Frozen, Nested, Slots

ROOT = Path(__file__).parent.parent.parent
CSRC = ROOT / "csrc"
HAS_COMPILER = shutil.which("cc") is not None and shutil.which("make") is not None


def columns(core, size, rows, width, capacity=None):
    """Make fq_columns with memory of exactly the sizes that the contract asks for."""
    ffi = core.ffi
    capacity = size + rows * width if capacity is None else capacity
    parts = {
        "values": ffi.new("uint64_t[]", rows * width),
        "flags": ffi.new("uint8_t[]", rows * width),
        "row_codes": ffi.new("uint8_t[]", rows),
        "text": ffi.new("char[]", capacity),
        "text_ends": ffi.new("size_t[]", width),
        "odd": ffi.new("size_t[]", width),
    }
    return ffi.new("fq_columns *", parts | {"text_capacity": capacity, "bad": 0}), parts


def decode(core, blob, rows, *, names=(b"n", b"s"), forbid=False, capacity=None):
    ffi, lib = core.ffi, core.lib
    kept = [ffi.from_buffer(name) for name in names]
    fields = ffi.new(
        "fq_field[]", [(name, len(name), lib.FQ_INT if i == 0 else lib.FQ_TEXT, 0, 1) for i, name in enumerate(kept)]
    )
    out, parts = columns(core, len(blob), rows, len(names), capacity)
    error = ffi.new("fq_error *")
    code = lib.fq_decode_flat(blob, len(blob), rows, fields, len(names), forbid, out, error)
    return code, error, list(parts["row_codes"]), ffi.buffer(parts["text"])[:] if code == lib.FQ_OK else b""


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b'{"n":1,"s":"x"}', "OK"),
        (b'{"n":1,"s":"x"', "ROW_SYNTAX"),
        (b'{"n":1.5,"s":"x"}', "ROW_TYPE"),
        (b'{"n":1,"s":5}', "ROW_TYPE"),
        (b'{"n":1,"s":null}', "ROW_TYPE"),
        (b'{"n":1}', "ROW_MISSING"),
        (b'{"n":1,"s":"x","x":1}', "ROW_UNKNOWN"),
        (b'{"n":1,"s":"x","n":2}', "ROW_DUPLICATE"),
        (b'{"n":9223372036854775808,"s":"x"}', "ROW_NUMBER"),
        (b'{"n":1,"s":"\\u0000"}', "ROW_TEXT"),
        (b'{"n":1,"s":"\\udc00"}', "ROW_TEXT"),
        (b'{"n":1,"s":"\xc0\x80"}', "ROW_TEXT"),
        (b'{"\\u006e":1,"s":"x"}', "ROW_KEY"),
    ],
)
def test_a_row_is_marked_with_the_reason_and_the_next_one_is_read(core, row, reason):
    code, _, codes, text = decode(core, row + b',\x1e{"n":2,"s":"yz"}', 2, forbid=True)

    assert code == core.lib.FQ_OK
    assert codes == [getattr(core.lib, f"FQ_{reason}"), core.lib.FQ_OK]
    assert text.startswith(b"x\0yz\0" if reason == "OK" else b"\0yz\0")


def test_nesting_has_a_limit_and_no_recursion(core):
    allowed = b'{"n":1,"s":"x","d":' + b"[" * 63 + b"]" * 63 + b"}"
    deeper = b'{"n":1,"s":"x","d":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"

    assert decode(core, allowed + b",\x1e" + deeper, 2)[2] == [core.lib.FQ_OK, core.lib.FQ_ROW_DEPTH]


def test_sizes_are_checked_before_anything_is_read(core):
    row = b'{"n":1,"s":"x"}'
    lib = core.lib

    assert decode(core, row, 0)[0] == lib.FQ_E_ARGUMENT
    assert decode(core, row, 1000)[0] == lib.FQ_E_ARGUMENT
    assert decode(core, row, 1, capacity=len(row) + 1)[0] == lib.FQ_E_ARGUMENT
    assert decode(core, row, 2)[0] == lib.FQ_E_ROWS
    assert decode(core, row + b",\x1e" + row, 1)[0] == lib.FQ_E_ROWS
    assert decode(core, row, 1, names=[b"n%d" % i for i in range(65)])[0] == lib.FQ_E_ARGUMENT


def test_an_encoder_that_is_short_of_room_says_how_much_it_needs(core):
    ffi, lib = core.ffi, core.lib
    text = b"a\0\xff\xff\0bc"  # two bytes that are not UTF-8 become six
    array = ffi.new("fq_array *", (lib.FQ_TEXT, ffi.from_buffer(text), len(text), ffi.NULL, 0))
    ends, size = ffi.new("size_t *"), ffi.new("size_t *")
    needed = 20 + 3 * 4 + 1 + 6 + 2

    for capacity in range(needed):
        out = ffi.new("char[]", capacity)
        assert lib.fq_encode(array, 1, 3, out, capacity, ends, size) == lib.FQ_E_SHORT
        assert size[0] == needed
    out = ffi.new("char[]", needed)
    assert lib.fq_encode(array, 1, 3, out, needed, ends, size) == lib.FQ_OK
    assert ffi.buffer(out)[needed - 21 :] == b"\0\0\0\1a\0\0\0\6\xef\xbf\xbd\xef\xbf\xbd\0\0\0\2bc"


@pytest.mark.skipif(not HAS_COMPILER, reason="needs make and a C compiler")
def test_the_core_compiles_without_a_warning(tmp_path):
    run(tmp_path, "warnings")


@pytest.mark.further
@pytest.mark.skipif(not HAS_COMPILER or shutil.which("readelf") is None, reason="needs make, a C compiler and readelf")
def test_the_core_compiles_so_that_a_mistake_in_it_does_little_harm(tmp_path):
    library = tmp_path / "core.so"
    run(tmp_path, "extension", f"EXTENSION={library}")
    found = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--segments", "--dyn-syms", library], capture_output=True, text=True, check=True
    )

    assert "BIND_NOW" in found.stdout
    assert "GNU_RELRO" in found.stdout
    assert "__stack_chk_fail" in found.stdout
    assert re.search(r"GNU_STACK .* RW ", found.stdout), "its stack may be executed"


@pytest.mark.further
@pytest.mark.skipif(not HAS_COMPILER, reason="needs make and a C compiler")
def test_the_kept_inputs_and_mutations_of_them_run_clean_under_the_sanitizers(tmp_path):
    assert "20000 runs" in run(tmp_path, "fuzz-core", "RUNS=20000", "FUZZER=driver")


def run(tmp_path, *arguments):
    command = ["make", "-C", str(CSRC), f"OUT={tmp_path}", f"PYTHON={sys.executable}", *arguments]
    environ = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "MAKEFLAGS")}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if "cannot find -lasan" in done.stderr or ("libasan" in done.stderr and "No such file" in done.stderr):
        pytest.skip("the compiler has no sanitizers here")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("shape", "few", "many"),
    [(Flat, 63, 64), (Slots, 255, 256), (Nested, 255, 256), (Frozen, 10_000, None), (Attrs, 10_000, None)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_c_reads_the_args_of_a_shape_from_so_many_jobs_on_as_make_it_faster(core, monkeypatch, shape, few, many):
    monkeypatch.setattr(door, "_twin", core)
    args = Kind("x", shape).codec

    assert door.decoder(args, few) == "python, by msgspec"
    assert many is None or door.decoder(args, many) == "c, by column"
    monkeypatch.setattr(door, "_twin", door.twin)
    assert door.decoder(args, many or few) == "python, by msgspec"


@pytest.mark.parametrize("wanted", ["python", "c", "auto"])
def test_the_environment_picks_the_twin(core, wanted):
    program = "from fastq.work.codec import codec; print(codec.in_use())"
    environ = os.environ | {"FASTQ_CODEC": wanted}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, cwd=ROOT, check=True)

    assert done.stdout.strip() == ("python" if wanted == "python" else "c")


def test_without_the_core_python_does_the_work_and_asking_for_c_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastq.work.codec.core", None)
    monkeypatch.delattr("fastq.work.codec.core", raising=False)
    monkeypatch.setattr(door, "_twin", None)

    assert door.use("auto") == "python"
    assert door.encode_ids([1, 2]) == door.twin.encode_ints([1, 2])
    with pytest.raises(ConfigError, match="cannot be used"):
        door.use("c")


OTHER_VERSION = """
import sys
from types import SimpleNamespace
from fastq import _fastq
lib = SimpleNamespace(**{name: getattr(_fastq.lib, name) for name in dir(_fastq.lib)} | {"FQ_ABI": 3})
sys.modules["fastq._fastq"] = SimpleNamespace(ffi=_fastq.ffi, lib=lib)
from fastq import errors
from fastq.work.codec import codec
print(codec.use("auto"))
try:
    codec.use("c")
except errors.ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_a_core_of_another_version_is_like_none(core, flags):
    words = [sys.executable, *flags, "-c", OTHER_VERSION]
    answer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()

    assert answer[0] == "python"
    assert answer[1].startswith("FASTQ_CODEC=c: expected the C core, but it cannot be used (the C core is of another version")
