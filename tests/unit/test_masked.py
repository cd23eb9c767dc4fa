"""Passwords of databases are taken out of any text, in time that grows with the text alone."""

import re

from hypothesis import given
from hypothesis import strategies as st

from fastq.masked import masked

PLAIN = re.compile(r"""((?:://)?[^\s:/@"']*:)(?!//)[^\s"]*@""")
"""The rule as one would write it down, which takes seconds for some long texts."""


@given(st.text("a:/@\"' \n", max_size=40))
def test_what_is_masked_is_what_the_plain_rule_masks(text):
    assert masked(text) == PLAIN.sub(r"\1***@", text)


def test_a_long_word_with_a_colon_and_an_at_sign_is_masked_at_once():
    """With the plain rule each of these takes minutes."""
    for text in ("x:y " + "a" * 200_000 + "@", "a:" * 100_000 + " x@y", "a:" * 100_000 + '"x@y'):
        assert len(masked(text)) >= 200_000
