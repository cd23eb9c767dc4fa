"""The text of a traceback: of kept lines it is, letter by letter, what the library makes of the exception."""

import sys
import traceback

import pytest

from fastq import texts


def deep(levels):
    return deep(levels - 1) if levels else 1 / 0


def twice(levels):
    return thrice(levels) if levels else {}["none"]


def thrice(levels):
    return twice(levels - 1)


def at_two_places(number):
    return 1 / 0 if number == 1 else (number, 1 / 0)


def over_several_lines():
    return {
        "one": 1,
        "two": [
            int("two"),
        ],
    }


def with_notes():
    error = ValueError("noted")
    error.add_note("a note")
    raise error


def of_another():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        raise RuntimeError("because") from error


def while_another():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        raise RuntimeError("meanwhile")  # noqa: B904


def of_none():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        raise RuntimeError("alone") from None


def many():
    raise ExceptionGroup("some", [ValueError("a"), KeyError("b")])


def misspelt():
    return at_two_place  # noqa: F821


def unreadable():
    compile("def:", "given", "exec")


class _Error(Exception):
    def __str__(self):
        return ""


def of_a_class_of_its_own():
    raise _Error


WAYS = {
    "plain": lambda: deep(0),
    "a few calls deep": lambda: deep(2),
    "so deep that the library counts": lambda: deep(40),
    "two functions in turns": lambda: twice(3),
    "one place of a line": lambda: at_two_places(1),
    "another place of the line": lambda: at_two_places(2),
    "a statement of several lines": over_several_lines,
    "notes": with_notes,
    "a cause": of_another,
    "a context": while_another,
    "a context that was suppressed": of_none,
    "a group": many,
    "a name that is not there": misspelt,
    "a module that is not there": lambda: __import__("fastq.nowhere"),
    "no Python": unreadable,
    "a class without a text": of_a_class_of_its_own,
    "a text that is None": lambda: exec("raise ValueError('None')"),
    "code without a source": lambda: exec("def f():\n    1 / 0\nf()"),
}


def raised(way):
    try:
        way()
    except BaseException as error:  # noqa: BLE001 - each of the ways raises another
        return error
    raise AssertionError("it did not raise")


@pytest.mark.parametrize("way", WAYS)
def test_a_trace_is_the_librarys_text_the_first_time_and_of_kept_lines(way):
    for _ in range(3):
        error = raised(WAYS[way])
        assert texts.trace_of(error) == "".join(traceback.format_exception(error))


def test_a_limit_of_the_program_holds(monkeypatch):
    monkeypatch.setattr(sys, "tracebacklimit", 1, raising=False)
    error = raised(lambda: deep(3))

    assert texts.trace_of(error) == "".join(traceback.format_exception(error))


def test_no_more_lines_are_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(texts, "FRAMES", 10)
    monkeypatch.setattr(texts, "_frames", {})
    for number in range(50):
        scope = {}
        exec(f"def fail{number}():\n    raise ValueError", scope)
        texts.trace_of(raised(scope[f"fail{number}"]))
        assert 0 < len(texts._frames) <= 10


def test_code_that_takes_the_place_of_other_code_has_lines_of_its_own():
    for number in range(50):  # each function is gone before the next: without care, one would take the other's number
        scope = {}
        exec(f"def fail{number}():\n    raise ValueError({number})", scope)
        error = raised(scope.pop(f"fail{number}"))
        trace = texts.trace_of(error)
        del error
        assert f"in fail{number}\n" in trace
