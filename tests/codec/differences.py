"""How answers are compared, and the written list of what readers of other houses make of the same JSON."""

import re

from fastq.errors import ArgsError

# What a reader of another house makes of a value that ours, written as here, refuses (or the other way round).
DIFFERENCES = {
    "orjson turns whole numbers beyond 64 bits into floats; here they stay whole": lambda text: bool(re.search(r"\d{19}", text)),
    "json takes lone surrogates; here, and in orjson, they are refused": lambda text: "\\ud" in text.lower(),
    "json takes NaN and Infinity and makes infinity of 1e999; here they are refused": lambda text: (
        "N" in text or "I" in text or bool(re.search(r"[eE]\+?\d{3}", text))
    ),
}


def differ(text):
    """Say whether the list says that readers differ about this."""
    return any(differs(text) for differs in DIFFERENCES.values())


def comparable(answer):
    """Make errors comparable, and -0.0 different from 0.0."""
    args, bad = answer
    return [(str(one), one.position, one.field) if isinstance(one, ArgsError) else repr(one) for one in args], bad
