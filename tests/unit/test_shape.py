"""The shape of a message: the same for messages of one cause, and another one for other words."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastq.admin.dead.groups import group_of
from fastq.admin.dead.shape import LONGEST, error_class, shape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ValueError: no 42 here", "ValueError: no <n> here"),
        ("KeyError: 'customer-7'", "KeyError: <text>"),
        ('expected "a", got `b`', "expected <text>, got <text>"),
        ("can't read it, don't ask", "can't read it, don't ask"),
        ("timed out after 3.5 s", "timed out after <n> s"),
        ("1,024 rows at 12:30:05", "<n> rows at <n>"),
        ("job 3fa85f64-5717-4562-b3fc-2c963f66afa6 is gone", "job <id> is gone"),
        ("object at 0x7F3a is dead", "object at <hex> is dead"),
        ("commit 4f2a9c1 is bad, and so is 1234567", "commit <hex> is bad, and so is <n>"),
        ("connection to 10.0.0.7:5432 refused", "connection to <address> refused"),
        ("no mailbox ada.l+x@example.org", "no mailbox <address>"),
        ("GET https://api.example.org/v1/users/7?x=1 said 503", "GET <url> said <n>"),
        ("/srv/data/2026-11-19/a.csv is empty", "<path> is empty"),
        (r"C:\users\ada is full", "<path> is full"),
        ("../x/y and ~/z are links", "<path> and <path> are links"),
        ("read/write and and/or stay", "read/write and and/or stay"),
        ("  two   blanks\tand a tab  ", "two blanks and a tab"),
        ("\n\nthe first line 1\nand another", "the first line <n>"),
        ("", ""),
        ("x" * 1_000, "x" * (LONGEST - 3) + "..."),
    ],
)
def test_the_parts_that_differ_from_job_to_job_are_taken_out(text, expected):
    assert shape(text) == expected


@given(st.text())
def test_a_shape_is_one_short_line_without_a_digit(text):
    found = shape(text)

    assert len(found) <= LONGEST
    assert len(found.splitlines()) <= 1
    assert not re.search(r"\d", found)


@example("0x0", 1)
@given(st.text(alphabet="ab x'\"/.:@-#0af<>~\\", max_size=60), st.integers(0, 9))
def test_other_digits_in_the_place_of_those_of_a_text_give_the_same_shape(text, digit):
    assert shape(text.replace("0", str(digit)).replace("#", "7")) == shape(text.replace("#", "7"))


@given(
    st.integers(0),
    st.uuids(),
    st.text(alphabet=st.characters(exclude_characters="'\n", codec="ascii"), max_size=20),
)
def test_numbers_ids_and_quoted_texts_make_no_difference(number, identity, quoted):
    def told(number, identity, quoted):
        return f"row {number} of {identity} has '{quoted}' here"

    assert shape(told(number, identity, quoted)) == "row <n> of <id> has <text> here"
    assert group_of("mail", "failed", told(1, identity, "x")) == group_of("mail", "failed", told(number, identity, "y"))


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_jobs_of_other_kinds_and_causes_are_other_groups(kind, cause):
    assert len({group_of(kind, cause, "x"), group_of(f"{kind}!", cause, "x"), group_of(kind, f"{cause}!", "x")}) == 3


@pytest.mark.parametrize(
    "text", ["'" * 20_000, '"' * 20_001, "a/" * 20_000, "a@" * 20_000, "1." * 20_000, "0a" * 20_000, "/" * 20_000]
)
def test_a_hostile_message_takes_no_longer_than_another(text):
    began = time.process_time()
    shape(text)

    assert time.process_time() - began < 1.0  # of this process, whatever others do; it takes some 100 us


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ValueError: no 42", "ValueError"),
        ("ValueError: ", "ValueError"),
        ("Outer.Inner: x", "Outer.Inner"),
        ("main.<locals>.Boom: x", "main.<locals>.Boom"),
        ("it died", None),
        ("cancelled: by hand", None),
        ("https://example.org", None),
        ("", None),
    ],
)
def test_the_class_of_an_error_is_what_its_message_begins_with(text, expected):
    assert error_class(text) == expected
