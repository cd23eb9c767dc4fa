"""JSONTestSuite: each of its 340 files gets the verdict of the policy in csrc/README.md, through both twins.

FASTQ_JSON_SUITE names the folder; else it is looked for beside the checkout. Without it these tests are skipped.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fastq.args.kinds import Kind
from fastq.errors import ArgsError

ROOT = Path(__file__).parent.parent.parent
FOUND = [Path(os.environ["FASTQ_JSON_SUITE"])] if "FASTQ_JSON_SUITE" in os.environ else ROOT.parent.glob("*/data/JSONTestSuite")
FILES = sorted(path for folder in FOUND for part in ("test_parsing", "test_transform") for path in (folder / part).glob("*.json"))

ACCEPTED = {  # of what RFC 8259 leaves to the reader; the rest of it is refused
    "i_number_double_huge_neg_exp.json",  # rounds to 0, as IEEE 754 says
    "i_number_real_underflow.json",
    "i_number_too_big_neg_int.json",  # Python's whole numbers have no end
    "i_number_too_big_pos_int.json",
    "i_number_very_big_negative_int.json",
    "i_structure_500_nested_arrays.json",
}
TRANSFORMED = {  # what the values become; None: refused
    "number_-9223372036854775808.json": [-(2**63)],
    "number_-9223372036854775809.json": [-(2**63) - 1],
    "number_1.0.json": [1.0],
    "number_1.000000000000000005.json": [1.0],
    "number_1000000000000000.json": [10**15],
    "number_10000000000000000999.json": [10000000000000000999],
    "number_1e-999.json": [0.0],
    "number_1e6.json": [1e6],
    "number_9223372036854775807.json": [2**63 - 1],
    "number_9223372036854775808.json": [2**63],
    "object_key_nfc_nfd.json": {"\u00e9": "NFC", "e\u0301": "NFD"},
    "object_key_nfd_nfc.json": {"\u00e9": "NFC", "e\u0301": "NFD"},
    "object_same_key_different_values.json": {"a": 2},
    "object_same_key_same_value.json": {"a": 1},
    "object_same_key_unclear_values.json": {"a": 0},
    "string_1_escaped_invalid_codepoint.json": None,
    "string_1_invalid_codepoint.json": None,
    "string_2_escaped_invalid_codepoints.json": None,
    "string_2_invalid_codepoints.json": None,
    "string_3_escaped_invalid_codepoints.json": None,
    "string_3_invalid_codepoints.json": None,
    "string_with_escaped_NULL.json": ["A\0B"],
}
# Under a key that the args do not know, nobody reads the value: only its grammar counts, not its range and not its UTF-8.
UNREAD_AND_ACCEPTED = {
    "i_number_huge_exp.json",
    "i_number_neg_int_huge_exp.json",
    "i_number_pos_double_huge_exp.json",
    "i_number_real_neg_overflow.json",
    "i_number_real_pos_overflow.json",
    "i_string_UTF-8_invalid_sequence.json",
    "i_string_UTF8_surrogate_U+D800.json",
    "i_string_invalid_utf-8.json",
    "i_string_iso_latin_1.json",
    "i_string_lone_utf8_continuation_byte.json",
    "i_string_not_in_unicode_range.json",
    "i_string_overlong_sequence_2_bytes.json",
    "i_string_overlong_sequence_6_bytes.json",
    "i_string_overlong_sequence_6_bytes_null.json",
    "i_string_truncated-utf-8.json",
    "string_1_invalid_codepoint.json",
    "string_2_invalid_codepoints.json",
    "string_3_invalid_codepoints.json",
}
# The scanner of the core leaves the range of numbers to whoever reads them, and deep nesting to the twin.
SCANNED_AND_ACCEPTED = {name for name in UNREAD_AND_ACCEPTED if name.startswith("i_number")}
SCANNED_AND_LEFT = {"i_structure_500_nested_arrays.json"}


@dataclass
class Read:
    value: Any


@dataclass
class Unread:
    n: int
    s: str


READ, UNREAD = Kind("read", Read), Kind("unread", Unread)


def accepted(name):
    """Return the policy's verdict."""
    return name.startswith("y_") or name in ACCEPTED or TRANSFORMED.get(name) is not None


def test_the_suite_is_whole():
    if not FILES:
        pytest.skip("no JSONTestSuite here")
    assert len(FILES) == 340
    assert set(TRANSFORMED) == {path.name for path in FILES if path.parent.name == "test_transform"}
    assert {path.name[:2] for path in FILES if path.parent.name == "test_parsing"} == {"y_", "n_", "i_"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_as_a_value_that_the_args_hold(codec, path):
    row = b'{"value":' + path.read_bytes() + b"}"
    (before, seen, after, _), bad = codec.read(
        READ.codec, b",\x1e".join([b'{"value":1}', row, b'{"value":2}', b'{"value":3}']), 4
    )

    assert (before, after) == (Read(1), Read(2))
    assert isinstance(seen, Read) == accepted(path.name)
    assert bad == ([] if accepted(path.name) else [1])
    if TRANSFORMED.get(path.name) is not None:
        assert seen.value == TRANSFORMED[path.name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_under_a_key_that_the_args_do_not_know(codec, path):
    good = b'{"n":1,"s":"x"}'
    row = b'{"n":1,"x":' + path.read_bytes() + b',"s":"x"}'
    args, _ = codec.read(UNREAD.codec, b",\x1e".join([good, row, good, good]), 4)
    expected = accepted(path.name) or path.name in UNREAD_AND_ACCEPTED

    assert [isinstance(one, ArgsError) for one in args] == [False, not expected, False, False]
    assert not expected or args[1] == Unread(1, "x")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_before_the_scanner_of_the_core(core, path):
    data = path.read_bytes()
    error = core.ffi.new("fq_error *")
    code = core.lib.fq_json_check(data, len(data), core.lib.FQ_MAX_DEPTH, error)
    expected = (accepted(path.name) or path.name in SCANNED_AND_ACCEPTED) and path.name not in SCANNED_AND_LEFT

    assert (code == core.lib.FQ_OK) == expected
    assert error.offset <= len(data)
