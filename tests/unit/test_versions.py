"""Versions of args, former names of kinds: what can be declared, what an upgrade sees, and by which names jobs are asked for."""

from dataclasses import dataclass

import msgspec
import pytest

from fastq import Args, Job, Kind, Registry, Unique, Worker, kind, upgrade
from fastq.args.versions.names import names_of, told
from fastq.errors import ArgsError, OptionError, RegistryError
from fastq.jobs.spec import Options, spec_of
from fastq.testing import check_versions
from tests.unit.versioned import MailArgs, MailWorker

SAMPLES = {1: {"address": "a@b"}, 2: {"to": ["a@b"]}, 3: {"to": ["a@b"], "urgent": True}}


def test_args_of_each_older_version_are_upgraded_step_by_step_and_then_read():
    read = check_versions(MailArgs, SAMPLES)

    assert read == {1: MailArgs(["a@b"], False), 2: MailArgs(["a@b"], False), 3: MailArgs(["a@b"], True)}


def test_a_batch_of_older_args_is_read_at_once_and_one_bad_job_fails_alone():
    codec = MailArgs.__fastq_kind__.reading("1")

    assert codec.decode_whole(b'[{"address":"a"},{"address":"b"}]') == [MailArgs(["a"]), MailArgs(["b"])]
    assert codec.decode_whole(b'[{"address":"a"},{"adress":"b"}]') is None
    assert codec.decode_at(0, b'{"address":"a"}') == MailArgs(["a"])
    refused = codec.decode_at(1, b'{"adress":"b"}')
    assert isinstance(refused, ArgsError)
    assert str(refused) == "args of kind 'mail' at position 1: the upgrade from version 1 raised KeyError: 'address'"


@pytest.mark.parametrize("stored", [b'{"address":1e400}', b'{"address":"\\ud800"}'])
def test_older_args_that_postgres_takes_and_no_converter_fail_alone(stored):
    codec = MailArgs.__fastq_kind__.reading("1")

    assert codec.decode_whole(b'[{"address":"a"},' + stored + b"]") is None
    assert "the stored JSON cannot be read" in str(codec.decode_at(0, stored))


def _end_the_program(args):
    raise SystemExit(args)


def test_an_upgrade_that_returns_no_dict_or_ends_the_program_is_an_error_of_that_job():
    of = Kind("odd", MailArgs, version=3)
    upgrade(of, from_version=1)(lambda args: [args])
    upgrade(of, from_version=2)(_end_the_program)

    assert "the upgrade from version 1 returned" in str(of.reading("1").decode_at(0, b"{}"))
    assert "the upgrade from version 2 raised SystemExit" in str(of.reading("2").decode_at(0, b"{}"))


def test_an_upgrade_that_makes_what_is_no_json_or_does_not_fit_the_type_names_itself_or_the_field():
    of = Kind("odd", MailArgs, version=2)
    upgrade(of, from_version=1)(lambda args: {"to": args["made"] and object()})
    other = Kind("odder", MailArgs, version=2)
    upgrade(other, from_version=1)(lambda args: {"to": 7})

    assert "the upgrade from version 1 has made what is no JSON" in str(of.reading("1").decode_at(0, b'{"made":true}'))
    assert other.reading("1").decode_at(0, b"{}").field == "to"


def test_a_job_carries_its_version_in_its_meta_and_a_kind_without_versions_nothing():
    assert spec_of(MailArgs.__fastq_kind__, Options()).meta == '{"version":3}'
    assert spec_of(MailArgs.__fastq_kind__, Options(expires=5)).meta == '{"expires":"+5.0","version":3}'
    assert spec_of(Kind("plain", MailArgs), Options()).meta is None
    assert spec_of(Kind("plain", MailArgs, version=1), Options()).meta is None


def test_a_struct_and_a_type_that_is_named_by_a_kind_have_versions_too():
    @kind("struct", version=2, aliases=["struct.old"])
    class StructArgs(Args, msgspec.Struct):
        to: str

    @upgrade(StructArgs, from_version=1)
    def renamed(args):
        return {"to": args["address"]}

    assert check_versions(StructArgs, {1: {"address": "a"}, 2: {"to": "b"}}) == {1: StructArgs("a"), 2: StructArgs("b")}
    assert renamed({"address": "c"}) == {"to": "c"}


@pytest.mark.parametrize("version", [0, -1, 2.0, True, "2", 100_000])
def test_a_version_is_a_whole_number_from_1_on(version):
    with pytest.raises(OptionError, match=r"version .*expected a whole number from 1"):
        Kind("x", MailArgs, version=version)


@pytest.mark.parametrize("aliases", ["mail.old", [""], ["x"], ["y", "y"], [7], ["a@2"]])
def test_aliases_are_other_names_each_once(aliases):
    with pytest.raises(OptionError):
        Kind("x", MailArgs, aliases=aliases)


def test_an_upgrade_is_from_a_version_below_that_of_the_kind_and_there_is_one_of_it():
    of = Kind("x", MailArgs, version=2)
    upgrade(of, from_version=1)(dict)

    with pytest.raises(OptionError, match="upgrade from version 2: expected a version below that of the kind"):
        upgrade(of, from_version=2)(dict)
    with pytest.raises(OptionError, match=r"there are two functions for it"):
        upgrade(of, from_version=1)(dict)
    with pytest.raises(OptionError, match="expected a function"):
        upgrade(Kind("x", MailArgs, version=2), from_version=1)(7)


@pytest.mark.parametrize("steps", [(), (1,), (1, 3)], ids=str)
def test_a_worker_is_refused_if_a_step_between_its_versions_is_missing(steps):
    of = Kind("gap", MailArgs, version=4)
    for step in steps:
        upgrade(of, from_version=step)(dict)

    class GapWorker(Worker[MailArgs], kind=of):
        def work(self, job: Job[MailArgs]) -> None: ...

    with pytest.raises(RegistryError, match=r"kind 'gap' has version 4 and no upgrade from version [23]; write @upgrade"):
        Registry().register(GapWorker)


def test_the_oldest_steps_may_be_dropped_and_a_job_of_such_a_version_says_so():
    of = Kind("late", MailArgs, version=3)
    upgrade(of, from_version=2)(lambda args: {"urgent": False, **args})

    refused = of.reading("").decode_at(0, b'{"address":"a"}')

    assert of.upgrades.missing() is None
    assert refused.reason == (
        "their version is 1, and this program upgrades args from version 2 on; write @upgrade(..., from_version=1)"
    )


def test_a_program_answers_to_the_names_of_its_kinds_their_former_ones_and_all_versions_that_it_knows():
    registry = Registry()
    registry.register(MailWorker)

    assert sorted(registry.workers) == ["letter", "mail", "post"]
    assert sorted(names_of(registry.workers)) == sorted(
        f"{name}{version}" for name in ("letter", "mail", "post") for version in ("", "@1", "@2", "@3")
    )
    assert registry.workers["post"] is registry.workers["mail"]
    assert len(registry.declared(next(iter(registry.sorts())))) == 1  # one row in the table of `fastq run`
    assert (told("mail"), told("mail@3")) == ("kind 'mail'", "kind 'mail' with args of version 3")


@dataclass
class PostArgs(Args, kind="post"):
    to: str


class PostWorker(Worker[PostArgs]):
    def work(self, job: Job[PostArgs]) -> None: ...


@pytest.mark.parametrize("order", [(PostWorker, MailWorker), (MailWorker, PostWorker)], ids=["before", "after"])
def test_a_former_name_that_another_worker_has_as_its_kind_is_refused(order):
    registry = Registry()
    registry.register(order[0])

    with pytest.raises(RegistryError, match=r"kind 'post' has two workers: .*take the name out of the aliases"):
        registry.register(order[1])
    assert registry.workers["post"].kind.name == order[0]._handle.name if order[0]._handle else True


def test_a_new_name_does_not_change_the_key_of_a_unique_job():
    before, now = Kind("post", MailArgs), Kind("mail", MailArgs, aliases=["letter", "post"])
    args = MailArgs(["a"])

    keys = {of.key_of(Unique(), args, of.codec.encode(args), "default").key for of in (before, now)}

    assert len(keys) == 1


def test_jobs_are_collected_with_those_of_their_own_version_alone():
    def key(version, then):
        of = Kind("mail", MailArgs, version=version)
        unique = Unique((), then=then, into="to" if then == "collect" else None)
        return of.key_of(unique, MailArgs(["a"]), b'{"to":["a"]}', "default").key

    assert key(1, "collect") != key(2, "collect")
    assert key(1, "replace") == key(2, "replace")


@pytest.mark.parametrize(
    ("samples", "told_of"),
    [
        ({1: {"address": "a"}, 3: {"to": []}}, "version 1, 2, 3: expected a sample of each alone; these differ: 2"),
        ({**SAMPLES, 4: {}}, "these differ: 4"),
        ({**SAMPLES, 1: {"adress": "a"}}, "the sample of version 1: .*KeyError"),
        ({**SAMPLES, 3: {"to": 7}}, "the sample of version 3: .*field 'to'"),
    ],
    ids=["missing", "unknown", "no upgrade", "no fit"],
)
def test_a_check_of_samples_tells_which_version_is_missing_or_broken(samples, told_of):
    with pytest.raises(AssertionError, match=told_of):
        check_versions(MailArgs, samples)
