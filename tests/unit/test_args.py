"""What is args: kinds and their options, and that a worker sees what was enqueued or nothing is stored."""

import math
import traceback
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastq.args import text
from fastq.args.kinds import Args, Kind, kind, kind_of
from fastq.args.options import check_max_attempts, check_priority, check_queue, check_tags
from fastq.errors import ArgsError, OptionError, UnknownKind
from fastq.work.codec import twin


@dataclass
class Data(Args, kind="data", queue="slow", priority=2, max_attempts=5, tags=["t"]):
    value: Any
    limit: float | None = None


@dataclass(slots=True, frozen=True)
class Slotted(Args, kind="slotted"):
    value: Any
    limit: float | None = None


@attrs.define
class Attrs(Args, kind="attrs"):
    value: Any
    limit: float | None = None


class Model(Args, pydantic.BaseModel, kind="model"):
    value: Any
    limit: float | None = None


@kind("struct", queue="slow")
class Struct(Args, msgspec.Struct):
    value: Any
    limit: float | None = None


class Typed(TypedDict):
    value: Any
    limit: NotRequired[float | None]


TYPED = Kind("typed", Typed)
SHAPES = {
    "dataclass": (Data, kind_of(Data(0))),
    "slotted": (Slotted, kind_of(Slotted(0))),
    "attrs": (Attrs, kind_of(Attrs(0))),
    "pydantic": (Model, kind_of(Model(value=0))),
    "struct": (Struct, kind_of(Struct(0))),
    "typeddict": (Typed, TYPED),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def encode(shape, **values):
    make, of_kind = SHAPES[shape]
    return of_kind.codec.encode(make(**values))


def refusal(shape, **values):
    with pytest.raises(ArgsError) as caught:
        encode(shape, **values)
    assert caught.value.kind == SHAPES[shape][1].name
    return caught.value


# Kinds and their options


@every_shape
def test_every_shape_of_args_has_its_kind(shape):
    make, of_kind = SHAPES[shape]

    assert of_kind.type is make
    assert kind_of(make(value=1), TYPED if make is Typed else None) is of_kind


def test_class_keywords_become_options_of_the_kind():
    declared = kind_of(Data(0))

    assert (declared.name, declared.queue, declared.priority) == ("data", "slow", 2)
    assert (declared.max_attempts, declared.tags) == (5, ("t",))
    assert kind_of(Struct(0)).queue == "slow"


def test_kind_that_says_nothing_leaves_its_options_open():
    assert (TYPED.queue, TYPED.priority, TYPED.max_attempts, TYPED.tags) == (None, None, None, ())


def test_subclass_does_not_inherit_its_parents_kind():
    @dataclass
    class Child(Data):
        more: int = 0

    with pytest.raises(UnknownKind, match=r"Child names no kind.*a worker would see a Data"):
        kind_of(Child(1))


def test_base_class_without_a_kind_serves_its_subclasses():
    @dataclass
    class Tenant(Args):
        tenant: int

    @dataclass
    class Mail(Tenant, kind="mail"):
        to: str

    assert kind_of(Mail(1, "x")).name == "mail"
    with pytest.raises(UnknownKind, match="Tenant names no kind"):
        kind_of(Tenant(1))


def test_args_that_are_no_args_say_what_to_write():
    with pytest.raises(UnknownKind, match=r"dict is no Args class: derive it from Args with kind=\.\.\., or pass kind="):
        kind_of({"value": 1})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Data, r"expected args, got the class Data itself: write Data\(\.\.\.\)"),
        ([1], "expected the args of one job, got a list: enqueue_many takes several"),
    ],
)
def test_what_is_probably_meant_with_something_else_is_told(given, words):
    with pytest.raises(UnknownKind, match=words):
        kind_of(given)


def test_the_name_of_a_kind_is_no_kind():
    with pytest.raises(OptionError, match=r"kind 'mail': expected a Kind, such as MAIL = Kind\('mail', MailDict\)"):
        kind_of({"value": 1}, "mail")


def test_a_decorator_without_its_call_is_refused():
    with pytest.raises(OptionError, match=r"kind <class .*Lost'>: expected a letter"):

        @kind
        class Lost(Args):
            pass


def test_options_without_a_kind_are_refused():
    with pytest.raises(OptionError, match=r"options need a kind"):

        class Lost(Args, queue="slow"):
            pass


def test_unknown_option_is_refused_where_it_is_written():
    with pytest.raises(OptionError, match="kind 'typo': unknown option quue; expected one of queue, priority, max_att"):

        class Typo(Args, kind="typo", quue="slow"):
            pass


def test_decorator_wants_an_args_class():
    with pytest.raises(OptionError, match=r"needs a class derived from Args, so that enqueue takes it: write class X\(Args,"):
        kind("x")(int)


def test_args_without_dataclass_are_told_so_at_the_first_enqueue():
    class PlainArgs(Args, kind="plain"):
        n: int

    with pytest.raises(ArgsError, match=r"args of kind 'plain': .*PlainArgs is a plain class, .* write @dataclass above it"):
        kind_of(PlainArgs()).codec.encode(PlainArgs())


def test_handle_wants_a_type():
    with pytest.raises(OptionError, match="expected a class or a TypedDict"):
        Kind("x", "Typed")


@pytest.mark.parametrize("name", ["", "1a", "a b", "a/b", "é", "a" * 128, "a\n", None])
def test_bad_kind_names_are_refused(name):
    with pytest.raises(OptionError, match="expected a letter or underscore"):
        Kind(name, Typed)


@pytest.mark.parametrize("name", ["a", "_", "Emails.Send", "app:resize-image", "a" * 127])
def test_good_kind_names_are_taken(name):
    assert Kind(name, Typed).name == name


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *[(check_queue, name) for name in ("", "A", "-a", ".a", "a b", "a" * 64, "a\n", None)],
        *[(check_priority, number) for number in (0, 5, True, 1.0, "1")],
        *[(check_max_attempts, number) for number in (0, 32_768, True, "3")],
        *[(check_tags, tags) for tags in ("red", ["a,b"], ["a\nb"], [""], ["a" * 256], ["\ud800"], ["a"] * 33, [1], None, 1)],
    ],
)
def test_bad_options_are_refused_with_the_rule(check, value):
    with pytest.raises(OptionError, match="expected"):
        check(value)


def test_good_options_come_back():
    assert check_queue("emails.high-1_x") == "emails.high-1_x"
    assert [check_priority(number) for number in (1, 4)] == [1, 4]
    assert [check_max_attempts(number) for number in (1, 32_767)] == [1, 32_767]
    assert check_tags(["rot", "größer 3"]) == ("rot", "größer 3")


# What enqueue accepts, the worker sees equal


@every_shape
@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(2**63), 2**64 - 1, 0.1, -0.0, 5e-324, "", "ä\U0001f600\x7f\x01", "\\u0000 null", [], {"": [{}]}, "9" * 30],
)
def test_value_comes_back_equal_and_of_its_type(shape, value):
    make, of_kind = SHAPES[shape]

    seen = of_kind.codec.decode(encode(shape, value=value))

    assert seen == make(value=value)
    assert type(seen) is type(make(value=value))


@every_shape
@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (math.nan, "value", "nan has no JSON form"),
        ([{"a": -math.inf}], "value[0].a", "-inf has no JSON form"),
        (2**64, "value", "does not fit into 64 bits"),
        ({"a": [0, -(2**63) - 1]}, "value.a[1]", "does not fit into 64 bits"),
        (["ok", "a\0b"], "value[1]", "a NUL character"),
        ({"a": {"\0": 1}}, "value.a", "a NUL character"),
        (["ok", "\ud800"], "value[1]", "a lone surrogate"),
        ({"\udfff": 1}, "value", "a lone surrogate"),
        ((1, 2), "value", "a worker would see [1, 2] instead of (1, 2)"),
        ({"a": [{1: 2}]}, "value.a[0]", "a worker would see {'1': 2} instead of {1: 2}"),
    ],
)
def test_what_would_not_come_back_is_refused_by_field(shape, value, path, reason):
    error = refusal(shape, value=value)

    assert error.field == path
    assert reason in error.reason


BERLIN = ZoneInfo("Europe/Berlin")
REPEATED = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
MOMENTS = [REPEATED, REPEATED.replace(fold=1), datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)]
"""In the hour that the zone has twice, its first and its second one, and in the hour that it leaves out."""


class Pair(NamedTuple):
    at: datetime
    number: int


@dataclass
class Own:
    at: datetime
    number: int
    __hash__ = None

    def __eq__(self, other):
        return (self.at, self.number) == (other.at, other.number)


@dataclass(frozen=True, slots=True)
class Frozen:
    at: datetime


@attrs.frozen
class FrozenAttrs:
    at: datetime


class FrozenStruct(msgspec.Struct, frozen=True):
    at: datetime


class FrozenModel(pydantic.BaseModel, frozen=True):
    at: datetime


class Dated(TypedDict):
    at: datetime


def same_moments(type_, make):
    """Enqueue one value of a type for each of the moments; return what workers see."""

    @dataclass
    class MeetArgs(Args, kind="meet"):
        value: type_

    codec = kind_of(MeetArgs(None)).codec
    return [codec.decode(codec.encode(MeetArgs(make(moment)))).value for moment in MOMENTS]


@pytest.mark.parametrize(
    ("type_", "make", "take"),
    [
        (datetime, lambda at: at, lambda seen: seen),
        (list[datetime | None], lambda at: [None, at], lambda seen: seen[1]),
        (tuple[datetime, ...], lambda at: (at,), lambda seen: seen[0]),
        (set[datetime], lambda at: {at, at + timedelta(days=9)}, min),
        (frozenset[datetime], lambda at: frozenset({at}), min),
        (dict[str, datetime], lambda at: {"a": at}, lambda seen: seen["a"]),
        (dict[datetime, int], lambda at: {at: 1}, min),
        (Pair, lambda at: Pair(at, 1), lambda seen: seen.at),
        (Own, lambda at: Own(at, 1), lambda seen: seen.at),
        (Frozen, Frozen, lambda seen: seen.at),
        (FrozenAttrs, FrozenAttrs, lambda seen: seen.at),
        (FrozenStruct, FrozenStruct, lambda seen: seen.at),
        (Dated, lambda at: {"at": at}, lambda seen: seen["at"]),
        (dict[str, list[Frozen]], lambda at: {"a": [Frozen(at)]}, lambda seen: seen["a"][0].at),
    ],
)
def test_moment_in_an_hour_that_a_zone_repeats_or_skips_is_the_same_moment_for_the_worker(type_, make, take):
    seen = [take(value) for value in same_moments(type_, make)]

    assert [moment.timestamp() for moment in seen] == [moment.timestamp() for moment in MOMENTS]
    assert seen[1] - seen[0] == timedelta(hours=1)


@dataclass
class DataMeeting(Args, kind="data_meeting"):
    at: datetime
    where: Frozen
    value: Any


class ModelMeeting(Args, pydantic.BaseModel, kind="model_meeting"):
    at: datetime
    where: FrozenModel
    value: Any


@pytest.mark.parametrize(("meet", "where"), [(DataMeeting, Frozen), (ModelMeeting, FrozenModel)])
def test_moment_in_a_repeated_hour_does_not_hide_another_difference(meet, where):
    meeting = meet(at=REPEATED, where=where(at=MOMENTS[1]), value=1)
    codec = kind_of(meeting).codec
    assert codec.decode(codec.encode(meeting)).at.timestamp() == REPEATED.timestamp()

    meeting.value = (1,)

    with pytest.raises(ArgsError, match=r"field 'value': a worker would see \[1\] instead of \(1,\)"):
        codec.encode(meeting)


def test_two_keys_that_mean_one_moment_are_refused():
    @dataclass
    class MeetArgs(Args, kind="meet"):
        rooms: dict[datetime, int]
        times: set[datetime]

    codec = kind_of(MeetArgs({}, set())).codec
    twice = [MOMENTS[1], MOMENTS[1].astimezone(UTC)]

    for meeting in MeetArgs(dict.fromkeys(twice, 1), set()), MeetArgs({}, set(twice)):
        with pytest.raises(ArgsError, match=r"a worker would (not )?see"):
            codec.encode(meeting)


def test_a_key_that_a_typeddict_does_not_have_is_refused_and_named():
    with pytest.raises(ArgsError, match="field 'stars': a worker would not see it; declare it in the type, or leave it out"):
        TYPED.codec.encode({"value": "x" * 500, "stars": 5})


def test_two_values_that_look_alike_are_not_told_as_two():
    @dataclass
    class CostArgs(Args, kind="cost"):
        cost: Decimal

    with pytest.raises(ArgsError, match=r"'cost': a worker would see a value that looks like Decimal\('NaN'\) and is not equal"):
        kind_of(CostArgs(Decimal(0))).codec.encode(CostArgs(Decimal("NaN")))


@every_shape
def test_nan_in_an_optional_field_does_not_turn_into_none(shape):
    assert refusal(shape, value=0, limit=math.nan).field == "limit"


@every_shape
def test_whole_number_that_a_float_field_would_round_is_refused(shape):
    make, of_kind = SHAPES[shape]
    args = make(value=0, limit=2**53 + 1)

    if args == make(value=0, limit=float(2**53)):  # pydantic rounds when the model is made
        assert of_kind.codec.decode(of_kind.codec.encode(args)) == args
    else:
        assert refusal(shape, value=0, limit=2**53 + 1).field == "limit"


@every_shape
def test_nesting_ends_at_64_levels(shape):
    def nested(levels):
        value = "leaf"
        for _ in range(levels):
            value = [value]
        return value

    assert encode(shape, value=nested(63))
    assert "nested deeper than 64 levels" in refusal(shape, value=nested(64)).reason
    assert "nested deeper than 64 levels" in refusal(shape, value=nested(100_000)).reason


@every_shape
def test_args_that_contain_themselves_are_refused(shape):
    value = []
    value.append(value)

    assert "containing itself" in refusal(shape, value=value).reason


def test_brackets_inside_text_are_no_nesting():
    assert encode("dataclass", value=["[" * 200, "]" * 99, '"[{'])


def test_brackets_inside_text_hide_no_nesting():
    value = 0
    for _ in range(100):
        value = ["]", value, "["]

    assert "nested deeper than 64 levels" in refusal("dataclass", value=value).reason


def test_many_small_parts_are_no_nesting():
    encoded = encode("dataclass", value=[{"a": [{"b": "c"}]}] * 100)

    assert not text._deep(encoded)


def test_args_over_the_limit_are_refused_with_both_sizes():
    codec = kind_of(Data(0)).codec
    size = len(codec.encode(Data("x" * 100)))

    assert codec.encode(Data("x" * 100), max_bytes=size)
    with pytest.raises(ArgsError, match=rf"{size} bytes of JSON, {size - 1} allowed"):
        codec.encode(Data("x" * 100), max_bytes=size - 1)


def test_args_of_another_class_are_refused():
    with pytest.raises(ArgsError, match="args of kind 'data': expected Data, got Struct"):
        kind_of(Data(0)).codec.encode(Struct(1))


def test_field_of_the_wrong_type_is_refused_when_enqueued():
    @dataclass
    class Sort(Args, kind="sort"):
        strings: list[str]

    with pytest.raises(ArgsError) as caught:
        kind_of(Sort([])).codec.encode(Sort(["a", 3]))

    assert str(caught.value) == "args of kind 'sort', field 'strings[1]': expected `str`, got `int`"


CARD = "4111-1111-1111-1111"


class Payment(pydantic.BaseModel):
    card: int


class Colour(Enum):
    RED = "red"


class Painted(msgspec.Struct):
    card: Colour


class Listed(msgspec.Struct):
    card: Literal["none"]


@pytest.mark.parametrize("type_", [Payment, Painted, Listed])
def test_what_does_not_decode_is_told_without_its_values(type_):
    codec = Kind("payment", type_).codec

    with pytest.raises(ArgsError) as caught:
        codec.decode(msgspec.json.encode({"card": CARD}))

    assert caught.value.field == "card"
    assert CARD not in "".join(traceback.format_exception(caught.value))


def test_what_pydantic_refuses_is_enqueued_by_nobody_and_not_quoted():
    payment = Payment.model_construct(card=CARD)

    with pytest.raises(ArgsError, match=r"field 'card': input should be a valid integer, .*, got a str") as caught:
        Kind("payment", Payment).codec.encode(payment)

    assert CARD not in "".join(traceback.format_exception(caught.value))


def test_value_that_json_cannot_hold_is_named():
    error = refusal("dataclass", value=[1, object()])

    assert (error.field, error.reason) == ("value[1]", "encoding objects of type object is unsupported")


def test_typed_fields_come_back_as_their_types():
    class Colour(Enum):
        RED = "red"

    @dataclass
    class Rich(Args, kind="rich"):
        at: datetime
        id: UUID
        price: Decimal
        colour: Colour
        pair: tuple[int, str]
        ids: set[int]
        by_number: dict[int, bytes]

    rich = Rich(datetime(2026, 1, 1, tzinfo=UTC), UUID(int=7), Decimal("1.10"), Colour.RED, (1, "a"), {3, 4}, {5: b"\0\xff"})
    codec = kind_of(rich).codec

    assert codec.decode(codec.encode(rich)) == rich


@pytest.mark.parametrize("identity", [dataclass(eq=False), attrs.define(eq=False)])
def test_types_without_equality_are_compared_field_by_field(identity):
    @identity
    class Point:
        xs: list[int]

    @identity
    class Draw(Args, kind="draw"):
        point: Point

    draw = Draw(Point([1]))
    codec = kind_of(draw).codec

    assert codec.decode(codec.encode(draw)).point.xs == [1]


def test_structs_without_equality_are_compared_field_by_field():
    @kind("draw")
    class Draw(Args, msgspec.Struct, eq=False):
        xs: Any

    codec = kind_of(Draw(0)).codec

    assert codec.decode(codec.encode(Draw([1]))).xs == [1]
    with pytest.raises(ArgsError, match="'xs': a worker would see"):
        codec.encode(Draw((1,)))


def test_field_that_differs_in_a_type_without_equality_is_refused():
    @dataclass(eq=False)
    class Draw(Args, kind="draw"):
        xs: Any

    with pytest.raises(ArgsError, match=r"'xs': a worker would see \[1\] instead of \(1,\) \(tuple and list\)"):
        kind_of(Draw(())).codec.encode(Draw((1,)))


@dataclass(frozen=True)
class Noted:
    key: int
    note: Any = field(default=None, compare=False)


@attrs.frozen
class NotedAttrs:
    key: int
    note: Any = attrs.field(default=None, eq=False)


@pydantic.dataclasses.dataclass
class NotedByPydantic:
    key: int
    note: Any = field(default=None, compare=False)


class NotedModel(pydantic.BaseModel):
    inner: Noted


NOTES = {
    "dataclass": (Noted, lambda noted: noted, ".note"),
    "attrs": (NotedAttrs, lambda noted: noted, ".note"),
    "list": (list[Noted], lambda noted: [Noted(1), noted], "[1].note"),
    "dict": (dict[str, Noted], lambda noted: {"a": noted}, "['a'].note"),
    "set": (set[Noted], lambda noted: {noted}, ".note"),
    "optional": (Noted | None, lambda noted: noted, ".note"),
    "nested": (dict[str, list[tuple[Noted, int]]], lambda noted: {"a": [(noted, 1)]}, "['a'][0][0].note"),
    "pydantic": (NotedByPydantic, lambda noted: noted, ".note"),
}


@pytest.mark.parametrize("name", NOTES)
def test_field_that_its_type_does_not_compare_is_compared(name):
    type_, make, path = NOTES[name]
    noted = type_ if name in ("attrs", "pydantic") else Noted

    @dataclass
    class NoteArgs(Args, kind="note"):
        value: type_

    codec = kind_of(NoteArgs(None)).codec
    for note in ("text", {"a": [1, None]}):
        if name != "set" or isinstance(note, str):
            args = NoteArgs(make(noted(2, note)))
            assert codec.decode(codec.encode(args)) == args

    for note in ((1, 2), UUID(int=1)):
        with pytest.raises(ArgsError, match="a worker would see") as caught:
            codec.encode(NoteArgs(make(noted(2, note))))
        assert caught.value.field.startswith("value")
        assert caught.value.field.endswith(path)


def test_field_that_a_dataclass_in_a_pydantic_model_does_not_compare_is_compared():
    class Outer(Args, pydantic.BaseModel, kind="outer"):
        model: NotedModel

    codec = kind_of(Outer(model=NotedModel(inner=Noted(1)))).codec
    assert codec.encode(Outer(model=NotedModel(inner=Noted(1, "text"))))

    with pytest.raises(ArgsError, match=r"field 'model\.inner\.note': a worker would see"):
        codec.encode(Outer(model=NotedModel(inner=Noted(1, (1, 2)))))


def test_moment_in_a_field_that_its_type_does_not_compare_is_the_same_moment():
    @dataclass
    class MeetArgs(Args, kind="meet"):
        at: datetime = field(compare=False)

    codec = kind_of(MeetArgs(REPEATED)).codec

    assert [codec.decode(codec.encode(MeetArgs(at))).at.timestamp() for at in MOMENTS] == [at.timestamp() for at in MOMENTS]


def test_private_state_that_is_not_written_is_refused():
    class Secret(Args, pydantic.BaseModel, kind="secret"):
        n: int
        _token: str = ""

    secret = Secret(n=1)
    assert kind_of(secret).codec.encode(secret) == b'{"n":1}'

    secret._token = "hidden"

    with pytest.raises(ArgsError, match="a worker would see"):
        kind_of(secret).codec.encode(secret)


def test_private_state_beside_a_type_without_equality_is_refused():
    @dataclass(eq=False)
    class Point:
        x: int

    class Secret(Args, pydantic.BaseModel, kind="secret"):
        point: Point
        _token: str = ""

    Secret.model_rebuild(_types_namespace={"Point": Point})
    secret = Secret(point=Point(1))
    assert kind_of(secret).codec.encode(secret) == b'{"point":{"x":1}}'

    secret._token = "hidden"

    with pytest.raises(ArgsError, match="a worker would see"):
        kind_of(secret).codec.encode(secret)


def test_pydantic_aliases_and_computed_fields_come_back():
    class Aliased(Args, pydantic.BaseModel, kind="aliased"):
        model_config = pydantic.ConfigDict(extra="forbid")
        user_id: int = pydantic.Field(alias="userId")

        @pydantic.computed_field
        def double(self) -> int:
            return 2 * self.user_id

    args = Aliased(userId=4)
    codec = kind_of(args).codec

    assert codec.encode(args) == b'{"userId":4}'
    assert codec.decode(b'{"userId":4}') == args


def test_pydantic_that_writes_nan_as_a_constant_is_refused():
    class Loose(Args, pydantic.BaseModel, kind="loose"):
        model_config = pydantic.ConfigDict(ser_json_inf_nan="constants")
        x: float

    with pytest.raises(ArgsError, match="'x': inf has no JSON form"):
        kind_of(Loose(x=0)).codec.encode(Loose(x=math.inf))


def test_type_that_cannot_be_read_is_refused_at_first_use():
    @dataclass
    class Odd(Args, kind="odd"):
        file: type(iter([]))

    with pytest.raises(ArgsError, match="args of kind 'odd'"):
        kind_of(Odd(iter([]))).codec.encode(Odd(iter([])))


# What a worker reads


def read(of_kind, batch):
    """Read the args of a batch as the producer does, bad ones as their errors."""
    return twin.read(of_kind.codec, twin.BETWEEN.join(batch), len(batch))[0]


@every_shape
def test_bad_element_of_a_batch_fails_alone_and_names_its_field(shape):
    make, of_kind = SHAPES[shape]
    batch = [b'{"value":1}', b'{"value":2,"limit":"x"}', b'{"value":3}', b"{}"]

    first, second, third, fourth = read(of_kind, batch)

    assert (first, third) == (make(value=1), make(value=3))
    assert (second.kind, second.field, second.position) == (of_kind.name, "limit", 1)
    assert (fourth.field, fourth.position) == ("value", 3)
    assert f"args of kind '{of_kind.name}' at position 1, field 'limit': " in str(second)
    assert (second.__traceback__, second.__cause__) == (None, None)


def test_broken_json_fails_alone():
    good, bad, two = read(kind_of(Data(0)), [b'{"value":1}', b'{"value":', b'{"value":2},{"value":3}'])

    assert good == Data(1)
    assert isinstance(bad, ArgsError)
    assert isinstance(two, ArgsError)


def test_element_that_holds_two_does_not_shift_the_others():
    two, good = read(kind_of(Data(0)), [b'{"value":1},{"value":2}', b'{"value":3}'])

    assert isinstance(two, ArgsError)
    assert good == Data(3)


def test_class_that_raises_what_it_likes_fails_alone():
    @dataclass
    class Moody(Args, kind="moody"):
        n: int

        def __post_init__(self):
            if self.n == 2:
                raise KeyError("not two")

    one, two = read(kind_of(Moody(0)), [b'{"n":1}', b'{"n":2}'])

    assert one == Moody(1)
    assert two.reason == "'not two'"


@every_shape
def test_unknown_keys_are_ignored_so_that_old_workers_serve_new_enqueuers(shape):
    make, of_kind = SHAPES[shape]

    assert of_kind.codec.decode(b'{"value":1,"new":2}') == make(value=1)


def test_unknown_keys_are_refused_where_the_class_says_so():
    @dataclass
    class Strict(Args, kind="strict", forbid_unknown_keys=True):
        n: int = field(default=0)

    codec = kind_of(Strict()).codec
    good, bad = read(kind_of(Strict()), [b'{"n":1}', b'{"n":1,"m":2}'])

    assert codec.decode(codec.encode(Strict(5))) == Strict(5)
    assert good == Strict(1)
    assert (bad.field, bad.reason) == ("m", "unknown key; forbid_unknown_keys allows only: n")


def test_pydantic_forbids_unknown_keys_its_own_way():
    with pytest.raises(OptionError, match=r"ConfigDict\(extra='forbid'\)"):

        class Strict(Args, pydantic.BaseModel, kind="strict", forbid_unknown_keys=True):
            n: int


# The rule itself

odd_text = st.text(st.characters(exclude_categories=()), max_size=5)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**65), max_value=2**65),
    st.floats(),
    odd_text,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner),
        st.dictionaries(odd_text | st.integers() | st.booleans(), inner, max_size=4),
    ),
    max_leaves=8,
)


@every_shape
@given(value=values, limit=st.none() | st.floats())
def test_enqueue_raises_or_the_worker_sees_the_same(shape, value, limit):
    make, of_kind = SHAPES[shape]
    args = make(value=value, limit=limit)

    try:
        encoded = of_kind.codec.encode(args)
    except ArgsError:
        return

    assert of_kind.codec.decode(encoded) == args
    assert read(of_kind, [encoded, encoded]) == [args, args]
    assert b"\\u0000" not in encoded.replace(rb"\\", b"")


@dataclass
class Fields(Args, kind="fields"):
    number: int
    share: float | None
    text: str
    flag: bool
    texts: list[str]
    counts: dict[str, int]
    pair: tuple[int, float] | None
    at: datetime | None


right = st.builds(
    Fields,
    number=st.integers(min_value=-(2**65), max_value=2**65),
    share=st.none() | st.floats() | st.integers(),
    text=odd_text,
    flag=st.booleans(),
    texts=st.lists(odd_text, max_size=3),
    counts=st.dictionaries(odd_text, st.integers(), max_size=3),
    pair=st.none() | st.tuples(st.integers(), st.floats()),
    at=st.none() | st.datetimes() | st.datetimes(timezones=st.timezones()),
)
names = st.sampled_from(sorted(Fields.__dataclass_fields__))


@given(args=right, name=names, wrong=st.none() | values)
def test_enqueue_raises_or_the_worker_sees_the_same_typed_fields(args, name, wrong):
    codec = kind_of(args).codec
    if wrong is not None:
        setattr(args, name, wrong)

    try:
        encoded = codec.encode(args)
    except ArgsError:
        return

    assert told(codec.decode(encoded)) == told(args)


def told(args):
    """Tell the moment instead of the zone: Python calls the zones' own datetimes unequal in an hour that one of them repeats."""
    at = args.at
    aware = isinstance(at, datetime) and at.utcoffset() is not None
    return replace(args, at=at.replace(tzinfo=UTC) - datetime(1, 1, 1, tzinfo=UTC) - at.utcoffset() if aware else at)
