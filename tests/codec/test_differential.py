"""Both twins give equal answers to whatever comes, and agree with orjson and json except where differences.py says."""

import json
import math

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastq.args.kinds import Kind
from fastq.work.codec import twin
from fastq.work.codec.codec import SMALL
from tests.codec.claims import SHAPES, Flat
from tests.codec.differences import comparable, differ

core = pytest.importorskip("fastq.work.codec.core")

KINDS = [Kind(f"{shape.__name__}{strict}", shape, forbid_unknown_keys=strict) for shape in SHAPES for strict in (False, True)]
FLAT = Kind("flat", Flat)

numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-1000, 1000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
strings = st.one_of(
    st.text(max_size=20).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=20).map(json.dumps),
    st.sampled_from([r'"\ud800"', r'"\u0000"', r'"\uD83D\uDE00"', r'"\x"', '"\\', '"', '"\t"', r'"\/"']),
)
scalars = st.one_of(
    numbers, strings, st.sampled_from(["null", "true", "false", "nul", "NaN", "-", "01", "1.", "[]", "{}", "[[1]]"])
)
spaces = st.sampled_from(["", "", "", " ", "\n\t "])
keys = st.sampled_from(["n", "f", "s", "b", "o", "t", "items", "n", "x", "\\u006e", "é"])


@st.composite
def objects(draw):
    members = [f'"{draw(keys)}"{draw(spaces)}:{draw(spaces)}{draw(scalars)}' for _ in range(draw(st.integers(0, 5)))]
    if draw(st.booleans()):
        members.insert(0, f'"n":{draw(st.integers(-9, 9))}')
    return draw(spaces) + "{" + ",".join(members) + "}" + draw(spaces)


rows = st.lists(
    st.one_of(objects().map(lambda text: text.encode("utf-8", "surrogatepass")), st.just(b'{"n":1}'), st.binary(max_size=12)),
    min_size=1,
    max_size=12,
)


@given(rows, st.sampled_from(KINDS))
@settings(max_examples=500)
def test_the_twins_agree(batch, kind):
    blob = b",\x1e".join(batch)
    mostly = core.MOSTLY
    core.MOSTLY = 1  # read what can be read by column, however many rows are marked
    try:
        by_column = core.read(kind.codec, blob, len(batch))
    finally:
        core.MOSTLY = mostly

    assert comparable(by_column) == comparable(twin.read(kind.codec, blob, len(batch)))


@given(
    st.one_of(
        numbers, strings, st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(lambda x: f"[{','.join(x)}]"))
    )
)
@settings(max_examples=750)
def test_the_core_takes_for_json_what_orjson_and_json_take(text):
    data = text.encode("utf-8", "surrogatepass")
    error = core.ffi.new("fq_error *")
    taken = core.lib.fq_json_check(data, len(data), 64, error) == core.lib.FQ_OK
    if differ(text):
        return

    assert taken == accepted(orjson.loads, data) == accepted(json.loads, data)


def accepted(loads, data):
    try:
        loads(data)
    except ValueError:
        return False
    return True


@given(st.builds(Flat, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text()))
@settings(max_examples=500)
def test_values_are_those_of_orjson_and_json(args):
    text = FLAT.codec.encode(args) if "\0" not in args.s else orjson.dumps({"n": args.n, "f": args.f, "s": args.s})
    blob = b",\x1e".join([text] * SMALL)
    (seen, *_), bad = core.read(FLAT.codec, blob, SMALL)

    assert bad == []
    for loads in (orjson.loads, json.loads):
        theirs = loads(text)
        assert (seen.n, seen.s) == (theirs["n"], theirs["s"])
        assert math.copysign(1, seen.f) == math.copysign(1, theirs["f"])
        assert seen.f == theirs["f"]
