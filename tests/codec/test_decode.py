"""Decoding: what a claim becomes, by both twins, and in which cases the C core leaves a row to the other."""

import gc
import sys
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Generic, Literal, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest

from fastq.args.kinds import Kind
from fastq.errors import ArgsError
from fastq.work.codec import twin
from fastq.work.codec.codec import decode
from tests.codec.claims import SHAPES, Attrs, Checked, Flat, Nested, Own, claimed, workers_of
from tests.codec.differences import comparable

FLAT = Kind("flat", Flat)
GOOD = b'{"n": 1}'


def read(codec, rows, kind=FLAT):
    return codec.read(kind.codec, b",\x1e".join(rows), len(rows))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_values_and_defaults_arrive_whatever_the_class_is_made_with(codec, shape):
    kind = Kind("x", shape)
    text = "" if shape is Checked else "x"
    rows = [b'{"n": 1, "items": [], "s": "x"}', b'{"items": [], "n": -2, "unknown": {"a": [1]}}', b' {"n":3,"items":[]} ']
    args, bad = read(codec, rows if shape is not Checked else [rows[0], rows[2]], kind)

    assert bad == []
    assert [type(one) for one in args] == [shape] * len(args)
    assert [one.n for one in args] == ([1, 3] if shape is Checked else [1, -2, 3])
    if hasattr(args[0], "s") and shape is not Attrs:
        assert args[0].s == "x" + ("!" if shape is Checked else "")
        assert args[-1].s == "?" + ("!" if shape is Checked else "")
        assert text in args[0].s


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        (b'{"n":0}', Flat(0)),
        (b'{"n":-0}', Flat(0)),
        (b'{"n":9223372036854775807}', Flat(2**63 - 1)),
        (b'{"n":-9223372036854775808}', Flat(-(2**63))),
        (b'{"n":9223372036854775808}', Flat(2**63)),
        (b'{"n":1,"f":1}', Flat(1, 1.0)),
        (b'{"n":1,"f":-0}', Flat(1, 0.0)),
        (b'{"n":1,"f":9007199254740993}', Flat(1, 9007199254740992.0)),
        (b'{"n":1,"f":0.1}', Flat(1, 0.1)),
        (b'{"n":1,"f":1.7976931348623157e308}', Flat(1, 1.7976931348623157e308)),
        (b'{"n":1,"f":5e-324}', Flat(1, 5e-324)),
        (b'{"n":1,"f":1e-400}', Flat(1, 0.0)),
        (b'{"n":1,"f":0.30000000000000004}', Flat(1, 0.1 + 0.2)),
        (b'{"n":1,"f":123456789012345678901234567890}', Flat(1, 123456789012345678901234567890.0)),
        (b'{"n":1,"f":1E+2}', Flat(1, 100.0)),
        (b'{"n":1,"s":""}', Flat(1, s="")),
        (b'{"n":1,"s":"a\\u00e9\\ud83d\\ude00\\n\\"\\\\\\/"}', Flat(1, s='aé😀\n"\\/')),
        ('{"n":1,"s":"déjà 😀"}'.encode(), Flat(1, s="déjà 😀")),
        (b'{"n":1,"s":"a\\u0000b"}', Flat(1, s="a\0b")),
        (b'{"n":1,"o":null,"t":null}', Flat(1, o=None)),
        (b'{"n":1,"o":5,"t":"x"}', Flat(1, o=5, t="x")),
        (b'{"b":true,"n":1}', Flat(1, b=True)),
        (b'{"\\u006e":4}', Flat(4)),
        (b'{"n":1,"n":2}', Flat(2)),
        (b'{"n":1,"x":[{"y":"\\"}"},[],{}],"z":1e999}', Flat(1)),
    ],
)
def test_a_value_is_read_exactly(codec, json, expected):
    (before, seen, after), bad = read(codec, [GOOD, json, GOOD])

    assert bad == []
    assert (before, after) == (Flat(1), Flat(1))
    assert seen == expected
    assert repr(seen) == repr(expected)  # -0.0 and 0.0 are equal


@pytest.mark.parametrize(
    ("json", "field", "reason"),
    [
        (b'{"n":"1"}', "n", "expected `int`"),
        (b'{"n":1.5}', "n", "expected `int`"),
        (b'{"n":1.0}', "n", "expected `int`"),
        (b'{"n":null}', "n", "expected `int`"),
        (b'{"n":true}', "n", "expected `int`"),
        (b"{}", "n", "missing"),
        (b'{"n":1,"f":"x"}', "f", "expected `float`"),
        (b'{"n":1,"f":1e999}', "f", "out of range"),
        (b'{"n":1,"s":5}', "s", "expected `str`"),
        (b'{"n":1,"b":0}', "b", "expected `bool`"),
        (b"[1]", "", "expected `object`"),
        (b"null", "", "expected `object`"),
        (b'{"n":1', "", ""),
        (b'{"n":01}', "", ""),
        (b'{"n":1}}', "", ""),
        (b'{"n":1,}', "", ""),
        (b'{"n":1,"s":"\\ud800"}', "", ""),
        (b'{"n":1,"s":"\xff"}', "", ""),
        (b'{"n":1,"s":"\\x"}', "", ""),
        (b'{"n":1,"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", "", ""),
        (b"", "", ""),
    ],
)
def test_a_bad_row_names_position_and_field_and_costs_its_neighbours_nothing(codec, json, field, reason):
    args, bad = read(codec, [GOOD, json, GOOD, GOOD, GOOD, GOOD])

    assert bad == [1]
    error = args.pop(1)
    assert isinstance(error, ArgsError)
    assert (error.kind, error.position, error.field) == ("flat", 1, field)
    assert reason in str(error)
    assert args == [Flat(1)] * 5


def test_objects_made_by_column_share_their_keys_however_many_are_made_at_once(core):
    @dataclass
    class Fresh:  # nobody has made one yet
        n: int
        s: str = "?"

    args, _ = read(core, [GOOD] * 1000, Kind("fresh", Fresh))

    assert not any(isinstance(part, dict) for one in args for part in gc.get_referents(one))  # a dict of its own: slow and large


def test_a_batch_of_bad_rows_only(codec):
    args, bad = read(codec, [b'{"n":"x"}'] * 9)

    assert bad == list(range(9))
    assert {one.field for one in args} == {"n"}


def test_unknown_keys_are_refused_where_the_kind_forbids_them(codec):
    kind = Kind("strict", Flat, forbid_unknown_keys=True)
    args, bad = read(codec, [GOOD, b'{"n":1,"new":2}', GOOD, GOOD], kind)

    assert bad == [1]
    assert args[1].field == "new"


def test_a_post_init_that_raises_is_an_error_of_its_row(codec):
    args, bad = read(codec, [GOOD, b'{"n":-1}', b'{"n":2,"s":"x"}'], Kind("checked", Checked))

    assert bad == [1]
    assert "n is negative" in str(args[1])
    assert [args[0].s, args[2].s] == ["?!", "x!"]


class Mute(BaseException):
    """Ends whoever asks it what is wrong."""

    def __str__(self):
        raise KeyboardInterrupt


def leave():
    sys.exit("no default")


@dataclass
class Leaving:
    n: int
    s: str = field(default_factory=leave)

    def __post_init__(self) -> None:
        if self.n < 0:
            raise Mute


def test_whatever_a_type_raises_is_an_error_of_its_row(codec):
    args, bad = read(codec, [b'{"n":1,"s":"x"}', b'{"n":-1,"s":"x"}', b'{"n":2}'], Kind("leaving", Leaving))

    assert bad == [1, 2]
    assert args[0] == Leaving(1, "x")
    assert [one.reason for one in args[1:]] == ["raised Mute, whose text could not be made", "raised SystemExit: no default"]


def test_a_default_of_a_factory_is_made_for_each_job(codec):
    first, second = read(codec, [GOOD, GOOD], Kind("attrs", Attrs))[0]

    assert first.items == []
    assert first.items is not second.items


def test_nested_args_are_read_too(codec):
    args, bad = read(codec, [b'{"n":1,"items":["a"]}', b'{"n":1,"items":[2]}'], Kind("nested", Nested))

    assert args[0] == Nested(1, ["a"])
    assert bad == [1]
    assert args[1].field == "items[0]"


def test_a_struct_and_a_typed_dict_are_read_too(codec):
    class Struct(msgspec.Struct):
        n: int

    class Mapping(TypedDict):
        n: int

    assert read(codec, [GOOD, GOOD], Kind("struct", Struct))[0] == [Struct(1)] * 2
    assert read(codec, [GOOD, GOOD], Kind("mapping", Mapping))[0] == [{"n": 1}] * 2


def test_args_with_a_flat_field_and_without_conversions_of_their_own_are_read_by_column(core):
    @dataclass
    class NothingFlat:
        items: list[int]
        x: list[str]

    @dataclass
    class ObjectsInside:
        n: int
        x: dict[str, int]

    by_column = {shape.__name__ for shape in SHAPES if core.plan_of(Kind("x", shape).codec) is not None}

    assert by_column == {"Flat", "FlatAttrs", "Nested", "Slots", "Own", "Checked", "Keywords"}
    assert core.plan_of(Kind("x", NothingFlat).codec) is None
    assert core.plan_of(Kind("x", ObjectsInside).codec) is None
    assert core.plan_of(Kind("x", Typical).codec).width == 8
    assert core.plan_of(Kind("x", Own).codec).width == 2


T = TypeVar("T")


@dataclass
class Boxed(Generic[T]):
    n: int
    things: T


@dataclass
class BoxedInts(Boxed[list[int]]):
    pass


def test_a_field_whose_type_another_class_tells_is_read_as_that(codec):
    kind = Kind("boxed", BoxedInts)

    (good, bad), refused = read(codec, [b'{"n":1,"things":[1,2]}', b'{"n":1,"things":["a"]}'], kind)

    assert good == BoxedInts(1, [1, 2])
    assert isinstance(bad, ArgsError)
    assert refused == [1]


@dataclass
class Typical:
    id: int
    at: datetime
    day: date
    key: UUID
    sort: Literal["a", "b"]
    share: Annotated[float, msgspec.Meta(ge=0.0)]
    items: list[int] = field(default_factory=lambda: [7])
    by: tuple[int, ...] | None = None


FIRST = (
    '"id":1,"at":"2026-11-20T08:00:00Z","day":"2026-11-20","key":"00000000-0000-0000-0000-000000000001","sort":"a","share":0.5'
)
ROWS = {
    "all": f'{{{FIRST},"items":[1,2],"by":[1]}}',
    "defaults": f"{{{FIRST}}}",
    "null": f'{{{FIRST},"by":null}}',
    "spaces": "{ " + FIRST.replace(":1,", " : 1 , ") + ' , "items" : [ 1 , 2 ] , "by" : [ ] }',
    "another order": f'{{"by":[],"items":[],{FIRST}}}',
    "an unknown key": f'{{"x":[[]],{FIRST},"y":{{}}}}',
    "a wrong value": f'{{{FIRST},"items":["a"]}}',
    "a value out of range": f"{{{FIRST.replace('0.5', '-0.5')}}}",
    "null for what is none": f'{{{FIRST},"items":null}}',
    "no JSON": f'{{{FIRST},"items":[1,]}}',
    "a field is missing": '{"id":1}',
}


@pytest.mark.parametrize("others", [[], ["all"], ["defaults", "all", "null"]])
@pytest.mark.parametrize("row", ROWS)
def test_fields_that_are_not_flat_are_read_as_the_twin_reads_them(codec, row, others):
    rows = [ROWS[name].encode() for name in [*others, *["all"] * 8, row, *others]]
    kind = Kind("typical", Typical)

    assert comparable(read(codec, rows, kind)) == comparable(read(twin, rows, kind))


def test_defaults_of_fields_that_are_not_flat_are_each_jobs_own(codec):
    first, second = read(codec, [ROWS["defaults"].encode()] * 2, Kind("typical", Typical))[0]

    assert first.items == second.items == [7]
    assert first.items is not second.items


def test_a_batch_finds_nothing_of_the_one_before_in_its_room(codec):
    kind = Kind("typical", Typical)
    for count in (1, 500, 3, 64, 1, 2_000, 2):
        rows = [ROWS["all" if number % 3 else "defaults"].encode() for number in range(count)]
        assert read(codec, rows, kind) == read(twin, rows, kind)


def test_plain_rows_are_read_by_the_core_and_not_by_its_twin(core, monkeypatch):
    monkeypatch.setattr(twin, "read", None)
    rows = [b'{"n":%d,"s":"x\\n","o":null,"f":0.30000000000000004}' % n for n in range(100)]

    assert read(core, rows)[0][99] == Flat(99, 0.1 + 0.2, "x\n", o=None)


def test_a_blob_with_another_number_of_rows_is_no_claim_of_ours(codec):
    for rows in ([GOOD, GOOD, GOOD], [GOOD]):
        args, _ = codec.read(FLAT.codec, b",\x1e".join(rows), 2)
        assert args == [Flat(1)] * len(rows)


def test_jobs_come_in_the_order_of_priority_and_seq(codec):
    claim = claimed([("flat", b'{"n":%d}' % n) for n in range(4)], priorities=[2, 1, 1, 2], seqs=[5, 9, 7, 4])
    good, bad, unknown, _ = decode(claim, workers_of(FLAT), codec.read)

    assert [job.args.n for job in good] == [2, 1, 3, 0]
    assert [job.id for job in good] == [3, 2, 4, 1]
    assert [job.priority for job in good] == [1, 1, 2, 2]
    assert [job.created_at.microsecond + 1_000_000 * job.created_at.second for job in good] == [3e6, 2e6, 4e6, 1e6]
    assert bad == unknown == []
    assert claim.last_seqs == {1: 9, 2: 5}


def test_kinds_are_told_apart_and_bad_and_unknown_ones_given_back(codec):
    nested = Kind("nested", Nested)
    rows = [("flat", GOOD), ("nested", b'{"n":2,"items":[]}'), ("lost", b"{}"), ("flat", b'{"n":[]}'), ("flat", GOOD)]
    good, bad, unknown, _ = decode(claimed(rows, beside=b'{"5": ["a"]}'), workers_of(FLAT, nested), codec.read)

    assert [(job.id, job.kind, type(job.args)) for job in good] == [(1, "flat", Flat), (2, "nested", Nested), (5, "flat", Flat)]
    assert [job.id for job in bad] == [4]
    assert bad[0].outcome is bad[0].args
    assert bad[0].args.field == "n"
    assert [(job.id, job.kind, job.args) for job in unknown] == [(3, "lost", None)]
    assert good[2].tags == ("a",)
    assert good[0].tags == ()


def test_one_kind_that_begins_like_another_is_not_taken_for_it(codec):
    rows = [("flat", GOOD), ("flat2", GOOD)]
    good, _, unknown, _ = decode(claimed(rows), workers_of(FLAT), codec.read)

    assert [job.id for job in good] == [1]
    assert [job.kind for job in unknown] == ["flat2"]
