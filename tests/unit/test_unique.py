"""Which jobs have one key: the declarations that are refused, the encoding, and keys that never change."""

import gc
import hashlib
import weakref
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastq import Args, Enqueue, Kind, Registry, Unique, Worker, kind
from fastq.args.unique import CHECKED
from fastq.enqueue import calls
from fastq.enqueue.uniques import Uniques
from fastq.errors import ArgsError, OptionError, RegistryError


@dataclass
class Owner:
    id: int
    name: str = ""


@dataclass
class FileArgs(Args, kind="file"):
    owner: Owner
    path: Any = ""
    tags: list[str] = field(default_factory=list)


@attrs.define
class AttrsArgs(Args, kind="file"):
    owner: Owner
    path: str = ""


class ModelArgs(Args, pydantic.BaseModel, kind="file"):
    owner: Owner
    path: str = ""


@kind("file")
class StructArgs(Args, msgspec.Struct, rename="camel"):
    owner: Owner
    path: str = ""


class Mapped(TypedDict):
    owner: dict[str, int]
    path: NotRequired[str]


MAPPED = Kind("file", Mapped)


def key(args, unique, of=None, queue="default"):
    call = calls.one(args, of, {"unique": unique, "queue": queue}, 1_000_000)
    [(spec, _)] = call.rows
    return spec.asked.key.hex()


OTHERS = {"b": [Decimal("1.50"), UUID(int=7)], "a": datetime(2026, 11, 19, tzinfo=UTC), "c": 2**63, "d": 1e100, "B": {3, 1, 2}}

VECTORS = {
    "all args": (
        Unique(),
        FileArgs(Owner(1, "a"), "x"),
        "6b947cafeaaae5253113bfb8c60a21635447b6d4c9a386d86bce4fcef62ff93e",
    ),
    "a field": (
        Unique("path"),
        FileArgs(Owner(1), "x"),
        "1ef67984e475d0749dbfc9d412c3b7869fe586e2350cb3aead0ad418ae358410",
    ),
    "a nested field": (
        Unique("owner.id"),
        FileArgs(Owner(1)),
        "7aafff0655d1cfe9e3152251f1d52442651f490e9d3c3eb7ed0a979bc687d604",
    ),
    "two fields": (
        Unique(("path", "owner.id")),
        FileArgs(Owner(1), "x"),
        "9128600766af4709742f42952cd6977e1831e07ca740ba11f41319a178ee3440",
    ),
    "none": (
        Unique(()),
        FileArgs(Owner(1)),
        "e656424a818d380105a63f07cfe487617740d5646429dc6810908b106915839c",
    ),
    "a function": (
        Unique(lambda args: [args.path, 1.5, None]),
        FileArgs(Owner(1), "x"),
        "af01ceb36fd3f9c3b41a338acc26ef0012e3865d38dca776cbe4ebb7278554f7",
    ),
    "of a queue": (
        Unique("path", scope="queue"),
        FileArgs(Owner(1), "x"),
        "0016fbdc3fdec3823b8d038ac593c0379a483dc44b4e5053fce912c470ba84f5",
    ),
    "of the schema": (
        Unique("path", scope="schema"),
        FileArgs(Owner(1), "x"),
        "3b309d089f7d626493fb13ff5ff19eefd4e2de658360ea64e72c88d89a60a0b1",
    ),
    "other letters": (
        Unique("path"),
        FileArgs(Owner(1), 'ü\U0001f600"'),
        "e3cc6a58a3151d0a70e58a79e88da9ee34e9f8ddd89a0fa14da5309bbfaf1764",
    ),
    "other types": (
        Unique(lambda _: OTHERS),
        FileArgs(Owner(1)),
        "dc332834acec16f6ef63f9815d4b6a972f7f72e57b6eaf523ee8e77050d7ad98",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_key_never_changes_from_version_to_version(name):
    unique, args, expected = VECTORS[name]

    assert key(args, unique) == expected


def test_a_key_is_a_digest_of_its_parts_each_with_its_length():
    parts = b'14:fastq unique 14:kind4:file8:owner.id1:+1:14:path1:+3:"x"'

    assert key(FileArgs(Owner(1), "x"), Unique(("path", "owner.id"))) == hashlib.sha256(parts).hexdigest()


def test_the_key_of_some_args_does_not_hang_on_the_library_that_their_class_is_of():
    for unique in (Unique("path"), Unique("owner.id"), Unique(("owner", "path")), Unique(("owner.name",))):
        found = {key(cls(owner=Owner(1, "a"), path="x"), unique) for cls in (AttrsArgs, ModelArgs, StructArgs)}
        assert found == {key(FileArgs(Owner(1, "a"), "x"), unique)}
    mapped = key(Mapped(owner={"id": 1}, path="x"), Unique(("owner.id", "path")), MAPPED)
    assert mapped == key(FileArgs(Owner(1), "x"), Unique(("path", "owner.id")))


def test_a_key_that_is_left_out_is_none_of_the_values_that_it_could_have():
    found = [key(Mapped(owner={"id": 1}), Unique("path"), MAPPED)]
    found += [key(Mapped(owner={"id": 1}, path=value), Unique("path"), MAPPED) for value in ("", "null", "-")]

    assert len({*found}) == 4


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text('a:1,"', max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("a:1", max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, VALUES)
def test_two_keys_are_equal_if_and_only_if_their_values_are(one, other):
    """River #1387: names with dots, or empty ones, were dropped from the hash, and different jobs had one key."""
    same = msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
    first, second = FileArgs(Owner(1), one), FileArgs(Owner(1), other)

    assert (key(first, Unique("path")) == key(second, Unique("path"))) == same
    assert (key(first, Unique()) == key(second, Unique())) == same
    assert (key(first, Unique(lambda args: args.path)) == key(second, Unique(lambda args: args.path))) == same


def test_parts_do_not_run_into_each_other():
    found = [
        key(FileArgs(Owner(1, "ab"), "c"), Unique(("owner.name", "path"))),
        key(FileArgs(Owner(1, "a"), "bc"), Unique(("owner.name", "path"))),
        key(FileArgs(Owner(1, "a"), "bc"), Unique(("path",))),
        key(FileArgs(Owner(1, "a"), "bc"), Unique()),
        key(FileArgs(Owner(1, "a"), "bc"), Unique(())),
        key(FileArgs(Owner(1, "a"), "bc"), Unique((), scope="queue")),
        key(FileArgs(Owner(1, "a"), "bc"), Unique((), scope="queue"), queue="kind"),
        key(FileArgs(Owner(1, "a"), "bc"), Unique((), scope="schema")),
    ]

    assert len({*found}) == len(found)
    assert key(FileArgs(Owner(1)), Unique(("path", "owner.id"))) == key(FileArgs(Owner(1)), Unique(["owner.id", "path"]))


REFUSED = {
    "scope='table': expected one of 'kind', 'queue', 'schema'": {"scope": "table"},
    "then='skip': expected one of 'keep', 'replace', 'debounce', 'collect', 'raise', 'cancel'": {"then": "skip"},
    "until='time': expected one of 'start', 'success', 'end'": {"until": "time"},
    "within=0: expected seconds above 0": {"within": 0},
    "within=True": {"within": True},
    "longest=5: only then='debounce'": {"longest": 5},
    "then='debounce' with until='end': expected until='start'": {"then": "debounce", "until": "end"},
    "expected then='collect' and into='a_field'": {"then": "collect", "by": ()},
    "then='keep', into='a': expected then='collect'": {"into": "a"},
    "expected by=..., with all args the list is part of the key": {"then": "collect", "into": "tags"},
    "most=0: expected a whole number from 1 on": {"then": "collect", "into": "tags", "by": (), "most": 0},
    "by='a b': expected the name of a field": {"by": "a b"},
}


@pytest.mark.parametrize("said", REFUSED)
def test_a_declaration_that_says_nothing_or_loses_jobs_is_refused(said):
    with pytest.raises(OptionError) as refused:
        Unique(**REFUSED[said])

    assert said in str(refused.value)


def test_a_field_that_the_args_have_not_is_refused_when_the_worker_is_registered():
    @dataclass
    class WrongArgs(Args, kind="wrong", unique=Unique("owner.nick")):
        owner: Owner

    class WrongWorker(Worker[WrongArgs]):
        def work(self, job):
            pass

    with pytest.raises(RegistryError, match=r"by='owner.nick': Owner has no field 'nick', it has id, name"):
        Registry().register(WrongWorker)
    with pytest.raises(OptionError, match="has no field 'nick'"):
        calls.one(WrongArgs(Owner(1)), None, {}, 1_000)
    with pytest.raises(OptionError, match=r"has no field 'size', it has owner, path, tags"):
        calls.one(FileArgs(Owner(1)), None, {"unique": Unique("size")}, 1_000)


def test_a_worker_may_say_it_and_not_otherwise_than_the_args():
    @dataclass
    class LateArgs(Args, kind="late"):
        number: int

    class LateWorker(Worker[LateArgs]):
        unique = Unique("number")

        def work(self, job):
            pass

    Registry().register(LateWorker)
    assert calls.one(LateArgs(1), None, {}, 1_000).rows
    LateWorker.unique = Unique()
    with pytest.raises(RegistryError, match=r"unique is .* in .*LateArgs and .* in .*LateWorker"):
        Registry().register(LateWorker)


def test_a_declaration_that_each_call_makes_anew_is_not_kept_for_ever():
    made = []
    for number in range(2_000):
        by = partial(getattr, number)  # a function of the call's own
        made.append(weakref.ref(by))
        Unique(by, within=1 + number).check(FileArgs, "file")
    del by
    gc.collect()

    assert sum(one() is not None for one in made) <= CHECKED


def test_what_is_no_unique_is_refused():
    with pytest.raises(OptionError, match=r"unique 'path': expected a Unique, such as unique=Unique\('account_id'\)"):
        calls.one(FileArgs(Owner(1)), None, {"unique": "path"}, 1_000)
    with pytest.raises(ArgsError, match=r"the key .* has no JSON form"):
        key(FileArgs(Owner(1)), Unique(lambda args: object()))
    with pytest.raises(ArgsError, match="is no finite number"):
        key(FileArgs(Owner(1)), Unique(lambda args: float("nan")))


def test_the_option_of_one_job_comes_before_that_of_the_call_and_that_before_the_kinds():
    item = Enqueue(FileArgs(Owner(1)), unique=Unique("path"))
    call = calls.many([item, FileArgs(Owner(1)), item], None, {"unique": Unique()}, 1_000)

    uniques = Uniques(call.rows)

    assert [[wish.positions for wish in wave] for wave in uniques.waves] == [[[0, 2], [1]]]
    assert call.rows[0][0].meta.startswith('{"unique":["')
