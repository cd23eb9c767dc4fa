"""Encoding: the arrays of the completion statements, as Postgres itself reads and writes them, by both twins."""

import struct

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq

from fastq.work.codec import twin

INTS = [[], [0], [1, -1, 2**63 - 1, -(2**63)], list(range(1000))]
FLOATS = [[], [0.0, -0.0, 1.5, -1e308, 5e-324, float("inf")]]
BOOLS = [[], [True, False, True]]
TEXTS = [
    [],
    [""],
    ["", ""],
    [None],
    [None, None],
    ["a", None, ""],
    ["déjà vu", "😀", '{"error": "boom"}', None],
    ["x" * 100_000, "y"],
]


def echo(server, type_, blob):
    """Have Postgres read the array and write it again; return its bytes."""
    with psycopg.connect(server) as connection:
        query = f"select $1::{type_}[]".encode()
        result = connection.pgconn.exec_params(query, [blob], None, [pq.Format.BINARY], pq.Format.BINARY)
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        return result.get_value(0, 0)


@pytest.mark.parametrize(
    ("type_", "name", "values"),
    [("int8", "encode_ints", values) for values in INTS]
    + [("float8", "encode_floats", values) for values in FLOATS]
    + [("bool", "encode_bools", values) for values in BOOLS]
    + [("text", "encode_texts", values) for values in TEXTS],
    ids=lambda value: str(value)[:20],
)
def test_postgres_reads_an_array_and_writes_the_same_bytes(codec, server, type_, name, values):
    blob = getattr(codec, name)(values)

    assert echo(server, type_, blob) == blob
    with psycopg.connect(server) as connection:
        ((read,),) = connection.execute(f"select %b::{type_}[]", [values]).fetchall()
    assert read == values


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\0b", "a\ufffdb"),
        ("\0", "\ufffd"),
        ("\ud800", "\ufffd"),
        ("a\udfff\udcffz", "a\ufffd\ufffdz"),
        ("\ud83d\ude00", "\ufffd\ufffd"),
        ("é\ud800\0😀", "é\ufffd\ufffd😀"),
    ],
)
def test_what_postgres_cannot_store_becomes_a_replacement_character(codec, server, text, stored):
    for values, expected in (([text], [stored]), (["x", text, None, ""], ["x", stored, None, ""])):
        blob = codec.encode_texts(values)
        assert blob == codec.encode_texts(expected)
        assert echo(server, "text", blob) == blob


@pytest.mark.parametrize(
    ("text", "cap", "kept"),
    [
        ("abcdef", 3, "abc"),
        ("abc", 3, "abc"),
        ("é" * 3, 3, "é"),
        ("😀😀", 7, "😀"),
        ("😀", 3, ""),
        ("a\0b", 3, "a"),
        ("\ud800x", 3, "\ufffd"),
    ],
)
def test_a_long_text_is_cut_between_characters(codec, text, cap, kept):
    assert codec.encode_texts([text, "z"], cap) == codec.encode_texts([kept, "z"])


def test_the_twins_encode_numbers_alike(core):
    for values in (*INTS, [5] * 3000):
        assert core.encode_ints(values) == twin.encode_ints(values)
    for numbers in FLOATS:
        assert core.encode_floats(numbers) == twin.encode_floats(numbers)
    for flags in BOOLS:
        assert core.encode_bools(flags) == twin.encode_bools(flags)


any_text = st.text(st.characters(exclude_categories=()), max_size=30)  # lone surrogates and NUL too


@given(st.lists(st.one_of(st.none(), any_text), max_size=12), st.one_of(st.just(0), st.integers(1, 40)))
@settings(max_examples=500)
def test_the_twins_encode_texts_alike(values, cap):
    core = pytest.importorskip("fastq.work.codec.core")

    assert core.encode_texts(values, cap) == twin.encode_texts(values, cap)


def test_a_number_beyond_64_bits_is_an_error_and_no_other_number(codec):
    with pytest.raises((OverflowError, struct.error)):
        codec.encode_ints([2**63])
