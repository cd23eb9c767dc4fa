"""What enqueue wrote comes back equal from Postgres, from json and from jsonb: 100,000 random values, or a tenth of them."""

import random

import psycopg
import pytest

from fastq.args.kinds import Kind
from tests.codec.claims import Flat

BATCH = 2_000
ALPHABET = [
    *'abcXYZ019 _-"\\/\b\f\n\r\t{}[]:,',
    *map(chr, (0x1, 0x1F, 0x7F, 0x80, 0xE9, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF)),
]
ALPHABET += ["\U00010000", "\U0001f600", "\U0010ffff", "\x1e", "\u2028"]
FLAT = Kind("flat", Flat)


def value(dice):
    whole = dice.choice((dice.randint(-(2**63), 2**63 - 1), dice.randint(-9, 9), 2**63 - 1, -(2**63)))
    real = dice.choice(
        (dice.random(), dice.uniform(-1e300, 1e300), dice.randint(-99, 99) / 4, float(dice.randint(0, 2**60)), 1e-7)
    )
    text = "".join(dice.choices(ALPHABET, k=dice.randint(0, 12)))
    return Flat(whole, real, text, dice.random() < 0.5, dice.choice((None, whole)), dice.choice((None, text)))


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("column", ["json", "jsonb"])
def test_what_was_enqueued_comes_back_equal(codec, server, column, count):
    dice = random.Random(41)
    query = f"""select string_agg(element::text, E',\x1e' order by place)
        from unnest($1::{column}[]) with ordinality as given (element, place)"""
    with psycopg.connect(server, cursor_factory=psycopg.RawCursor) as connection:
        for _ in range(count // BATCH):
            values = [value(dice) for _ in range(BATCH)]
            texts = [FLAT.codec.encode(one).decode() for one in values]
            ((blob,),) = connection.execute(query, [texts]).fetchall()
            seen, bad = codec.read(FLAT.codec, blob.encode(), BATCH)

            assert bad == []
            assert seen == values
