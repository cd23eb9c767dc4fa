"""Fields that keys, weights and lists are named by: a name that the args have not is refused wherever its part is missing."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from fastq import Args, Fair, Kind, Limit, Ordered, Rate, Registry, Unique, Worker
from fastq.enqueue import calls
from fastq.errors import ArgsError, OptionError, RegistryError


@dataclass
class Owner:
    id: int
    name: str = ""


class Keyed(TypedDict):
    id: int
    name: NotRequired[str]


@attrs.define
class Shaped:
    id: int
    name: str = ""


class Tree(msgspec.Struct, rename="camel"):
    id: int
    name: str = ""
    next: "Tree | None" = None


class Model(pydantic.BaseModel):
    id: int
    name: str = ""


class Other(pydantic.BaseModel):
    number: int


class Empty(msgspec.Struct):
    pass


class Plan(IntEnum):
    SMALL = 1
    LARGE = 5


def dataclass_of(type_):
    return dataclass(type("Mail", (), {"__annotations__": {"owner": type_}}))


def model_of(type_):
    return pydantic.create_model("Mail", owner=(type_, ...))


def typed_dict_of(type_):
    return TypedDict("Mail", {"owner": type_})


def attrs_of(type_):
    return attrs.make_class("Mail", {"owner": attrs.field(type=type_)})


def struct_of(type_):
    return msgspec.defstruct("Mail", [("owner", type_)])


MISSING = {
    "a class": (dataclass_of(Owner), "Owner has no field 'ident', it has id, name"),
    "a class or None": (dataclass_of(Owner | None), "Owner has no field 'ident', it has id, name"),
    "an annotated class": (dataclass_of(Annotated[Owner, "whose"]), "Owner has no field 'ident', it has id, name"),
    "an annotated class or None": (
        dataclass_of(Annotated[Owner | None, msgspec.Meta(title="Owner")]),
        "Owner has no field 'ident', it has id, name",
    ),
    "a list": (dataclass_of(list[Owner]), "list has no field 'ident', it has none"),
    "a number": (dataclass_of(int), "int has no field 'ident', it has none"),
    "a number or a text": (dataclass_of(int | str | None), r"int \| str has no field 'ident', it has none"),
    "a class without fields": (dataclass_of(Empty), "Empty has no field 'ident', it has none"),
    "a TypedDict": (dataclass_of(Keyed), "Keyed has no field 'ident', it has id, name"),
    "a TypedDict or None": (dataclass_of(Keyed | None), "Keyed has no field 'ident', it has id, name"),
    "in a TypedDict": (typed_dict_of(NotRequired[Owner | None]), "Owner has no field 'ident', it has id, name"),
    "an attrs class": (attrs_of(Shaped | None), "Shaped has no field 'ident', it has id, name"),
    "a struct": (struct_of(Tree | None), "Tree has no field 'ident', it has id, name, next"),
    "a model": (model_of(Model), "Model has no field 'ident', it has id, name"),
    "an optional model": (model_of(Optional[Model]), "Model has no field 'ident', it has id, name"),  # noqa: UP045
    "one of two models": (model_of(Model | Other), r"Model \| Other has no field 'ident', it has id, name, number"),
    "an annotated model": (model_of(Annotated[Model | None, "whose"]), "Model has no field 'ident', it has id, name"),
    "a list in a model": (model_of(list[Model]), "list has no field 'ident', it has none"),
    "a number in a model": (model_of(Optional[int]), "int has no field 'ident', it has none"),  # noqa: UP045
}


@pytest.mark.parametrize(("type_", "missing"), MISSING.values(), ids=MISSING)
def test_a_nested_field_that_is_misspelt_is_refused_whatever_holds_it(type_, missing):
    for declared, told in [
        (Unique("owner.ident"), "unique: by="),
        (Limit("api", 1, by="owner.ident"), r"Limit\('api'\): by="),
        (Limit("cpu", 8, weight="owner.ident"), r"Limit\('cpu'\): weight="),
        (Rate("api", 1, per=60, by="owner.ident"), r"Rate\('api'\): by="),
        (Ordered("stream", by="owner.ident"), r"Ordered\('stream'\): by="),
        (Fair("turns", by="owner", share="owner.ident"), r"Fair\('turns'\): share="),
    ]:
        options = {"unique": declared} if isinstance(declared, Unique) else {"gates": [declared]}
        with pytest.raises(OptionError, match=f"kind 'mail': {told}'owner.ident': {missing}$"):
            Kind("mail", type_, **options).check_fields()


@pytest.mark.parametrize("type_", [dataclass_of(dict[str, int]), dataclass_of(Any), typed_dict_of(dict), model_of(dict | Model)])
def test_a_part_that_nobody_can_tell_is_let_pass(type_):
    Kind("mail", type_, unique=Unique("owner.ident"), gates=[Limit("cpu", 8, weight="owner.ident")]).check_fields()


@pytest.mark.parametrize("type_", [type_ for type_, missing in MISSING.values() if "it has id, name" in missing])
def test_a_nested_field_that_is_there_is_taken_whatever_holds_it(type_):
    Kind("mail", type_, unique=Unique("owner.name"), gates=[Limit("cpu", 8, by="owner", weight="owner.id")]).check_fields()
    with pytest.raises(OptionError, match=r"weight='owner.name': expected a field that is an int, got str$"):
        Kind("mail", type_, gates=[Limit("cpu", 8, weight="owner.name")]).check_fields()


def test_a_field_of_a_class_that_holds_itself_is_found():
    Kind("tree", Tree, unique=Unique("next.next.id")).check_fields()
    with pytest.raises(OptionError, match=r"by='next.next.ident': Tree has no field 'ident'"):
        Kind("tree", Tree, unique=Unique("next.next.ident")).check_fields()


def test_a_misspelt_nested_field_is_refused_before_the_first_job():
    @dataclass
    class MailArgs(Args, kind="mail", unique=Unique("owner.ident")):
        owner: Owner | None

    class MailWorker(Worker[MailArgs]):
        def work(self, job):
            pass

    rule = "^kind 'mail': unique: by='owner.ident': Owner has no field 'ident', it has id, name$"
    with pytest.raises(RegistryError, match=rule):
        Registry().register(MailWorker)
    with pytest.raises(OptionError, match=rule):
        calls.many([MailArgs(Owner(1)), MailArgs(Owner(2)), MailArgs(Owner(3))], None, {}, 1_000)


@pytest.mark.parametrize("type_", [int, int | None, Annotated[int, msgspec.Meta(ge=1)], Plan, Literal[1, 5], int | str, Any])
def test_a_weight_may_be_a_field_that_may_hold_a_whole_number(type_):
    Kind("mail", dataclass_of(type_), gates=[Limit("cpu", 8, weight="owner")]).check_fields()
    Kind("mail", dataclass_of(type_), gates=[Fair("turns", by="owner", share="owner")]).check_fields()


@pytest.mark.parametrize(
    ("type_", "name"),
    [(str, "str"), (bool, "bool"), (float | None, "float"), (list[int], "list"), (Owner, "Owner"), (Literal["a"], "literal")],
)
def test_a_weight_that_is_never_a_whole_number_is_refused(type_, name):
    for word, gate in (("weight", Limit("cpu", 8, weight="owner")), ("share", Fair("turns", by="owner", share="owner"))):
        with pytest.raises(OptionError, match=rf"{word}='owner': expected a field that is an int, got {name}$"):
            Kind("mail", dataclass_of(type_), gates=[gate]).check_fields()


@pytest.mark.parametrize("make", [lambda size: Limit("cpu", 8, weight=size), lambda size: Rate("cpu", 8, per=60, weight=size)])
def test_a_weight_may_be_a_function_of_the_args(make):
    kind = Kind("mail", Owner, gates=[make(lambda args: len(args.name))])

    [entry] = msgspec.json.decode(kind.gates_of(Owner(1, "four"), "default"))
    assert entry[3] == 4
    for name in ("", "x" * 2**16):
        kind = Kind("mail", Owner, gates=[make(lambda args: len(args.name) ** 2 or 0.5)])
        with pytest.raises(ArgsError, match="expected a whole number from 1 on as the weight at the gate 'cpu', got"):
            kind.gates_of(Owner(1, name), "default")


def test_a_share_may_be_a_function_of_the_args():
    kind = Kind("mail", Owner, gates=[Fair("turns", by="id", share=lambda args: 1 + (args.name == "large"))])

    assert kind.gates_of(Owner(1, "large"), "default") == '[["fair","turns",1,1,1000,[2]]]'
    assert kind.gates_of(Owner(2, "small"), "default") == '[["fair","turns",2,1,1000]]'


@dataclass
class Collected:
    some: list[int]
    perhaps: list[int] | None = None
    others: set[int] = field(default_factory=set)
    more: tuple[int, ...] = ()
    any: Any = None
    text: str = ""
    pair: tuple[int, int] = (0, 0)
    owner: Owner | None = None


@pytest.mark.parametrize("into", ["some", "perhaps", "others", "more", "any"])
def test_jobs_are_collected_in_a_list(into):
    Kind("mail", Collected, unique=Unique((), then="collect", into=into)).check_fields()


@pytest.mark.parametrize(("into", "name"), [("text", "str"), ("pair", "tuple"), ("owner", "Owner")])
def test_jobs_are_collected_in_nothing_but_a_list(into, name):
    with pytest.raises(OptionError, match=f"^kind 'mail': unique: into='{into}': expected a field that is a list, got {name}$"):
        Kind("mail", Collected, unique=Unique((), then="collect", into=into)).check_fields()
