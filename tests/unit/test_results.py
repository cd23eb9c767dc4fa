"""Outputs as JSON, whatever type they have, and as the type that is declared for them; notes of progress; declared types."""

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import numpy as np
import pydantic
import pytest

from fastq import Args, Job, Kind, Registry, Worker
from fastq.errors import OptionError, RegistryError
from fastq.jobs.outcome import Output, of_value
from fastq.results import progress
from fastq.results.encoding import typed, written
from fastq.work.execute.settle import settle

NOON = dt.datetime(2026, 11, 19, 12, tzinfo=dt.UTC)


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    number: int
    at: dt.datetime


@attrs.define
class Box:
    inside: Any


@dataclass
class Data:
    total: Decimal
    _hidden: int = 2


@dataclass
class CountArgs(Args, kind="count"):
    to: int


VALUES = [
    ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
    (Data(Decimal("1.50")), '{"total":"1.50","_hidden":2}'),
    ([NOON, uuid.UUID(int=1), Colour.RED], '["2026-11-19T12:00:00Z","00000000-0000-0000-0000-000000000001","red"]'),
    ([{1}, b"ab", Point(1, 2), dt.timedelta(seconds=3)], '[[1],"YWI=",[1,2],"PT3S"]'),
    ({1: "whole keys", 2**70: "and large ones"}, '{"1":"whole keys","1180591620717411303424":"and large ones"}'),
    (Model(number=1, at=NOON), '{"number":1,"at":"2026-11-19T12:00:00Z"}'),
    (Box([Model(number=1, at=NOON)]), '{"inside":[{"number":1,"at":"2026-11-19T12:00:00Z"}]}'),
    (np.arange(3), "[0,1,2]"),
    ({"mean": np.float32(0.1), "all": np.bool_(True), "n": np.int64(3)}, '{"mean":0.1,"all":true,"n":3}'),
    (Box(np.arange(6).reshape(2, 3)[:, ::2]), '{"inside":[[0,2],[3,5]]}'),
    (np.arange(3, dtype=">i4"), "[0,1,2]"),
    (np.array(3), "3"),
    ([np.datetime64("2026-11-19"), np.str_("x")], '["2026-11-19","x"]'),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=lambda value: type(value).__name__)
def test_a_value_that_programs_return_is_kept_as_json(value, text):
    assert of_value(value) == (Output(text), None)


@pytest.mark.parametrize("value", [np.array([1.0, np.nan]), [np.float32("inf")], {"in": {"it": np.array([[np.inf]])}}])
def test_a_number_of_an_array_that_json_has_not_drops_the_value_and_is_told(value, events):
    assert settle(Job.of(None), value, None) is None

    (event,) = events
    assert (event.name, "has no JSON form" in event.fields["reason"]) == ("output.dropped", True)


@pytest.mark.parametrize(
    "value", [np.array([1j]), np.longdouble(1.5), [np.array([object()])], {"a": np.arange(2), "b": object()}]
)
def test_a_value_with_a_part_that_json_cannot_hold_is_dropped(value, events):
    assert settle(Job.of(None), value, None) is None
    assert [event.name for event in events] == ["output.dropped"]


class Raising(enum.Enum):
    ONE = 1

    @property
    def value(self):
        raise SystemExit


class Clearing:
    """Takes the list apart that it is in, while it is written."""

    def __init__(self, around):
        self.around = around
        self.dtype = np.dtype(object)

    def __array__(self):
        raise KeyboardInterrupt

    def tolist(self):
        self.around.clear()
        return 1


def clearing():
    value = []
    value += [Clearing(value), *[["x" * 100] for _ in range(1000)]]
    return value


class Zone(dt.tzinfo):
    def utcoffset(self, at):
        raise SystemExit


ODD = {"an enum": lambda: Raising.ONE, "a list": clearing, "a time": lambda: dt.datetime(2026, 1, 1, tzinfo=Zone())}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an array"])
def test_no_value_ends_the_process_whatever_its_code_does(name, beside):
    value = [ODD[name](), np.arange(3)] if beside else ODD[name]()

    settle(Job.of(None), value, None)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Data, Data(Decimal("1.50"))),
        (list[Data], [Data(Decimal(1))]),
        (dict[str, dt.datetime], {"a": NOON}),
        (int | None, None),
        (Model, Model(number=1, at=NOON)),
        (list[Model], [Model(number=1, at=NOON)]),
        (Colour, Colour.RED),
    ],
    ids=str,
)
def test_a_value_comes_back_as_its_declared_type(type_, value):
    assert typed(type_).read(written(value)) == value


def test_an_array_comes_back_as_an_array():
    assert typed(np.ndarray).read(written(np.arange(3))).tolist() == [0, 1, 2]


def worker_of(**options):
    @dataclass
    class OneArgs(Args, kind="one", **options):
        pass

    return OneArgs


def test_a_worker_gives_the_type_that_it_declares_to_the_kind():
    args = worker_of()

    class Plain(Worker[args]):
        def work(self, job):
            return None

    class WithResult(Worker[args, list[int]]):
        def work(self, job):
            return [1]

    Registry().register(Plain)
    assert args.__fastq_kind__.result is None
    Registry().register(WithResult)
    assert args.__fastq_kind__.result == list[int]


def test_a_worker_and_args_that_declare_different_types_are_refused():
    args = worker_of(result=str)

    class WithResult(Worker[args, list[int]]):
        def work(self, job):
            return [1]

    with pytest.raises(RegistryError, match=r"kind 'one': result is .* in .* state it in one of them"):
        Registry().register(WithResult)


def test_a_type_that_cannot_be_read_from_json_is_refused():
    with pytest.raises(OptionError, match=r"result .*: expected a type that can be read from JSON"):
        Kind("one", dict, result=int | list[int] | set[int])


def test_an_output_that_does_not_fit_is_kept_and_told(events):
    args = worker_of(result=list[int])

    class One(Worker[args]):
        def work(self, job):
            return None

    worker = One()
    Registry().register(worker)
    job = Job.of(args())
    job.batch.worker = worker

    assert settle(job, [1], None) == Output("[1]")
    assert events == []
    assert settle(job, ["x"], None) == Output('["x"]')
    assert [(event.name, event.fields["kind"]) for event in events] == [("output.unfit", "one")]


@pytest.fixture
def taken():
    """Give the notes that are taken."""
    seen = []
    progress.use(lambda job_id, note: seen.append((job_id, *note)))
    yield seen
    progress.use(None)


@pytest.mark.parametrize(
    ("given", "kept"), [(0.4, 0.4), (1, 1.0), (-3, 0.0), (1.0000001, 1.0), (float("nan"), 0.0), (np.float32(0.5), 0.5)]
)
def test_a_note_is_a_fraction_from_0_to_1(given, kept, taken):
    Job.of(CountArgs(1), id=7, attempt=2).progress(given, "at it")

    assert taken == [(7, 2, kept, "at it")]


def test_a_text_is_short_and_storable(taken):
    Job.of(CountArgs(1)).progress(0.5, "a\0b\ud800" + "x" * 1000)

    assert taken[0][3].startswith("a\ufffdb\ufffdxx")
    assert len(taken[0][3]) == progress.MAX_TEXT


@pytest.mark.parametrize("given", [("0.5",), (None,), (True,), (0.5, 3)])
def test_a_note_that_is_none_is_refused(given, taken):
    with pytest.raises(TypeError, match=r"progress\("):
        Job.of(CountArgs(1)).progress(*given)
    assert taken == []


def test_a_note_of_a_job_that_was_made_for_a_test_is_forgotten():
    Job.of(CountArgs(1)).progress(0.5)
