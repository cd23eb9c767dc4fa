"""Encrypted args: what is stored, what opens, what is refused, and that no text has a value."""

import asyncio
import base64
import json
import types
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from fastq import (
    Args,
    Config,
    Enqueue,
    Every,
    Job,
    Kind,
    Limit,
    Ordered,
    Registry,
    Secret,
    Unique,
    Worker,
    kind,
    upgrade,
    use_keys,
)
from fastq.args.secret import ring
from fastq.args.secret.envelopes import resealed
from fastq.args.secret.hidden import concealed
from fastq.errors import ArgsError, ConfigError, OptionError, RegistryError
from fastq.hooks.concealing import hidden_texts
from fastq.texts import told, trace_of
from fastq.work.codec import core

OLD, NEW, UNIQUE = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
CARD = "4111-1111-1111-1111"


@dataclass
class PayArgs(Args, kind="pay", encrypted=True):
    card: str
    cents: int = 0


@dataclass
class Card:
    number: Secret[str]
    holder: str


@dataclass
class BuyArgs(Args, kind="buy"):
    user: int
    card: Secret[str]
    cents: Secret[int] | None = None
    others: list[Card] = field(default_factory=list)


@attrs.define
class AttrsArgs(Args, kind="attrs"):
    card: Secret[str]


@kind("struct", encrypted=True)
class StructArgs(Args, msgspec.Struct):
    card: str


class ModelArgs(Args, pydantic.BaseModel, kind="model"):
    card: Secret[str]
    user: int = 0


class HiddenModelArgs(Args, pydantic.BaseModel, kind="hidden_model", encrypted=True):
    card: str


class PayDict(TypedDict):
    card: str


BUY = BuyArgs(7, Secret(CARD), Secret(500), [Card(Secret("5500"), "Ada"), Card(Secret("5501"), "Eve")])
MANY = [
    PayArgs(CARD, 5),
    BUY,
    BuyArgs(7, Secret("")),
    AttrsArgs(Secret(CARD)),
    StructArgs(CARD),
    ModelArgs(card=Secret(CARD)),
    HiddenModelArgs(card=CARD),
]


@pytest.fixture(autouse=True)
def keys():
    use_keys({"new": NEW, "old": OLD}, unique=UNIQUE)
    yield
    ring.forget()


def codec(args):
    return type(args).__fastq_kind__.codec


@pytest.mark.parametrize("args", MANY, ids=lambda args: type(args).__name__)
def test_args_come_back_equal_one_by_one_and_in_a_batch_and_what_is_stored_has_no_secret(args):
    stored = codec(args).encode(args)

    assert CARD.encode() not in stored
    assert b"5500" not in stored
    assert codec(args).decode(stored) == args
    if not isinstance(args, pydantic.BaseModel):  # these are read one by one, encrypted or not
        assert codec(args).decode_whole(b"[" + stored + b"," + stored + b"]") == [args, args]
    assert core.plan_of(codec(args)) is None


def test_an_envelope_says_which_key_it_takes_and_two_of_the_same_args_differ():
    one, two = (json.loads(codec(PayArgs(CARD)).encode(PayArgs(CARD))) for _ in range(2))

    assert list(one) == ["$fq", "key", "nonce", "data"]
    assert (one["$fq"], one["key"]) == (1, "new")
    assert one["data"] != two["data"]
    assert one["nonce"] != two["nonce"]


def test_fields_that_are_no_secrets_stay_readable_to_sql():
    stored = json.loads(codec(BUY).encode(BUY))

    assert stored["user"] == 7
    assert [other["holder"] for other in stored["others"]] == ["Ada", "Eve"]
    assert {*stored["card"]} == {"$fq", "key", "nonce", "data"}
    assert json.loads(codec(BUY).encode(BuyArgs(7, Secret(""))))["cents"] is None


def test_a_typed_dict_is_encrypted_too():
    of = Kind("pay_dict", PayDict, encrypted=True)
    stored = of.codec.encode({"card": CARD})

    assert CARD.encode() not in stored
    assert of.codec.decode(stored) == {"card": CARD}


def test_args_that_were_stored_plain_are_read_beside_encrypted_ones():
    plain = b'{"user":7,"card":"4111-1111-1111-1111"}'
    stored = codec(BUY).encode(BuyArgs(7, Secret(CARD)))

    assert codec(BUY).decode_whole(b"[" + plain + b"," + stored + b"]") == [BuyArgs(7, Secret(CARD))] * 2
    assert codec_of(PayArgs).decode(b'{"card":"x"}') == PayArgs("x")


def codec_of(cls):
    return cls.__fastq_kind__.codec


def test_an_older_key_opens_and_the_first_one_encrypts():
    use_keys({"old": OLD})
    before = codec(BUY).encode(BUY)
    use_keys({"new": NEW, "old": OLD})

    assert codec(BUY).decode(before) == BUY
    assert json.loads(codec(BUY).encode(BUY))["card"]["key"] == "new"


def test_a_key_that_is_not_there_fails_that_job_alone_and_says_its_name_and_nothing_of_the_data():
    use_keys({"old": OLD})
    stored = codec(BUY).encode(BUY)
    use_keys({"new": NEW})
    good = codec(BUY).encode(BUY)

    assert codec(BUY).decode_whole(b"[" + stored + b"," + good + b"]") is None
    refused = codec(BUY).decode_at(0, stored)
    assert codec(BUY).decode_at(1, good) == BUY
    assert str(refused) == (
        "args of kind 'buy' at position 0, field 'card': encrypted with the key 'old', and this program has new alone: "
        "set FASTQ_ARGS_KEYS, or call fastq.use_keys"
    )


def moved(stored, change):
    tree = json.loads(stored)
    change(tree)
    return json.dumps(tree).encode()


def swap_cards(tree):
    tree["card"], tree["cents"] = tree["cents"], tree["card"]


def spoil(tree):
    data = bytearray(base64.b64decode(tree["card"]["data"]))
    data[0] ^= 1
    tree["card"]["data"] = base64.b64encode(data).decode()


def garble(tree):
    tree["card"]["data"] = "no base64!"


def shorten(tree):
    tree["card"]["nonce"] = ""


@pytest.mark.parametrize("change", [swap_cards, spoil, garble, shorten])
def test_data_that_was_moved_to_another_field_or_changed_does_not_open(change):
    refused = codec(BUY).decode_at(0, moved(codec(BUY).encode(BUY), change))

    assert isinstance(refused, ArgsError)
    assert refused.field == "card"
    assert "encrypted with the key 'new'" in refused.reason


def test_data_of_another_kind_does_not_open_and_that_of_a_former_name_does():
    former, now, other = Kind("sale", BuyArgs), Kind("deal", BuyArgs, aliases=["sale"]), Kind("other", BuyArgs)
    stored = former.codec.encode(BUY)

    assert now.codec.decode(stored) == BUY
    assert "does not open" in other.codec.decode_at(0, stored).reason


def test_a_form_of_a_newer_program_is_told():
    stored = moved(codec(BUY).encode(BUY), lambda tree: tree["card"].update({"$fq": 2}))

    assert "in a form that this program does not know" in codec(BUY).decode_at(0, stored).reason


def test_older_args_are_opened_upgraded_and_read():
    before = Kind("paid", PayDict, encrypted=True)
    now = Kind("paid", dict[str, list[str]], encrypted=True, version=2)
    upgrade(now, from_version=1)(lambda args: {"cards": [args["card"]]})
    broken = Kind("paid", dict[str, list[str]], encrypted=True, version=2)
    upgrade(broken, from_version=1)(lambda args: {}[args["card"]])
    stored = before.codec.encode({"card": CARD})

    assert now.reading("1").decode(stored) == {"cards": [CARD]}
    refused = broken.reading("1").decode_at(0, stored)
    assert refused.reason == "the upgrade from version 1 raised KeyError"


@pytest.mark.parametrize("args", MANY, ids=lambda args: type(args).__name__)
def test_no_text_of_args_has_a_secret(args):
    job = Job.of(args)
    texts = [repr(args), str(args), f"{args}", repr(job), repr(Enqueue(args)), repr([args])]

    assert CARD not in "".join(texts)
    assert "5500" not in "".join(texts)
    assert "•••" in repr(args)


def test_a_secret_is_equal_by_its_value_and_shows_it_to_reveal_alone():
    assert Secret(CARD) == Secret(CARD) != Secret("other")
    assert Secret(CARD) != CARD
    assert hash(Secret(CARD)) == hash(Secret(CARD))
    assert {Secret(1), Secret(1)} == {Secret(1)}
    assert Secret(CARD).reveal() == CARD
    assert ModelArgs(card=Secret(CARD)).model_dump_json() == '{"card":"•••","user":0}'
    assert ModelArgs.model_validate_json(json.dumps({"card": CARD})) == ModelArgs(card=Secret(CARD))


@pytest.mark.parametrize(
    ("args", "field_name"),
    [
        (PayArgs(CARD, 2**70), "cents"),
        (PayArgs("\0" + CARD), "card"),
        (PayArgs(Secret(CARD)), "card"),
        (BuyArgs(1, Secret("a"), Secret(2**70)), "cents"),
        (BuyArgs(1, Secret(7)), "card"),
        (BuyArgs(1, Secret("a"), others=[Card(Secret("\0"), "x")]), "others[0].number"),
    ],
    ids=repr,
)
def test_a_value_that_is_refused_is_told_by_its_field_alone(args, field_name):
    with pytest.raises(ArgsError) as caught:
        codec(args).encode(args)

    assert caught.value.field == field_name
    assert CARD not in str(caught.value)
    assert str(2**70) not in str(caught.value)


def test_a_fault_beside_the_secrets_is_told_as_ever():
    with pytest.raises(ArgsError, match="does not fit into 64 bits"):
        codec(BUY).encode(BuyArgs(2**70, Secret(CARD)))


def test_the_words_of_a_type_that_refuses_encrypted_args_are_not_told():
    @dataclass
    class PickyArgs(Args, kind="picky", encrypted=True):
        card: str

        def __post_init__(self):
            if self.card.startswith("bad"):
                raise ValueError(f"no good card: {self.card}")

    stored = codec_of(PickyArgs).encode(PickyArgs("good"))
    assert codec_of(PickyArgs).decode(stored) == PickyArgs("good")
    refused = codec_of(PickyArgs).decode_at(0, b'{"card":"bad 4111"}')
    assert "4111" not in str(refused)
    assert "its words are not shown" in refused.reason


def test_a_key_that_marks_envelopes_is_refused_in_args():
    of = Kind("free", dict[str, str], encrypted=True)
    with pytest.raises(ArgsError, match="expected any other"):
        of.codec.encode({"$fq": "mine"})
    assert of.codec.decode(of.codec.encode({"text": 'a "$fq" in a text'})) == {"text": 'a "$fq" in a text'}


def test_stored_args_are_shown_with_dots():
    stored = codec(BUY).encode(BUY).decode()

    assert json.loads(concealed(stored)) == {
        "user": 7,
        "card": "•••",
        "cents": "•••",
        "others": [{"number": "•••", "holder": "Ada"}, {"number": "•••", "holder": "Eve"}],
    }
    assert concealed(codec(PayArgs(CARD)).encode(PayArgs(CARD)).decode()) == '"•••"'
    assert concealed('{"plain": 1}') == '{"plain": 1}'


def test_the_size_that_counts_is_that_of_what_is_stored():
    assert codec(PayArgs(CARD)).encode(PayArgs("x" * 500), 1_000)
    with pytest.raises(ArgsError, match="bytes of JSON, 600 allowed"):
        codec(PayArgs(CARD)).encode(PayArgs("x" * 500), 600)


def key(args, unique, of=None):
    of = of or type(args).__fastq_kind__
    return of.key_of(unique, args, of.codec.encode(args), "default").key


def test_equal_secrets_have_one_unique_key_which_does_not_change_with_the_ring_and_is_no_plain_digest():
    for unique in (Unique("card"), Unique(), Unique(lambda args: args.card), Unique(("user", "others"))):
        before = key(BUY, unique)
        use_keys({"newest": UNIQUE[::-1]}, unique=UNIQUE)
        assert key(BUY, unique) == before
        use_keys({"new": NEW}, unique=NEW)
        assert key(BUY, unique) != before
        use_keys({"new": NEW}, unique=UNIQUE)
    assert key(BUY, Unique("card")) != key(BuyArgs(7, Secret("other")), Unique("card"))
    assert key(PayArgs(CARD), Unique("card")) != key(PayArgs(CARD), Unique("card"), Kind("pay", PayArgs))


def test_a_unique_key_of_fields_that_are_no_secrets_needs_no_key_of_ours():
    use_keys({"new": NEW})

    assert key(BUY, Unique("user")) == key(BuyArgs(7, Secret("other")), Unique("user"))
    with pytest.raises(ConfigError, match="FASTQ_ARGS_UNIQUE_KEY"):
        key(BUY, Unique("card"))
    with pytest.raises(ConfigError, match="FASTQ_ARGS_UNIQUE_KEY"):
        key(PayArgs(CARD), Unique("cents"))


@pytest.mark.parametrize(
    "options",
    [
        {"gates": [Limit("api", at_most=1, by="card")]},
        {"gates": [Ordered("api", by=("user", "card"))]},
        {"gates": [Limit("api", at_most=1, by="others")]},
        {"gates": [Limit("api", at_most=1, weight="cents")]},
        {"gates": [Limit("api", at_most=1, by="user")], "encrypted": True},
    ],
    ids=repr,
)
def test_a_gate_over_an_encrypted_field_is_refused_at_registration(options):
    of = Kind("gated", BuyArgs, **options)

    class GatedWorker(Worker[BuyArgs], kind=of):
        def work(self, job: Job[BuyArgs]) -> None: ...

    with pytest.raises(
        RegistryError,
        match=r"names a field that is encrypted, and a gate shows its keys|expected a field that is an int, got Secret",
    ):
        Registry().register(GatedWorker)


def test_a_gate_over_other_fields_or_by_a_function_is_allowed_and_none_at_all_too():
    for gate in (
        Limit("api", at_most=1, by="user"),
        Limit("api", at_most=1),
        Limit("api", at_most=1, by=lambda args: args.user % 2),
    ):
        of = Kind("gated", BuyArgs, gates=[gate])
        of.check_fields()
        assert of.gates_of(BUY, "default") is not None
    assert Kind("gated", PayArgs, encrypted=True, gates=[Limit("api", at_most=1)]).gates_of(PayArgs(CARD), "default")


def test_collecting_in_encrypted_args_is_refused_and_secrets_in_a_list_are_collected():
    with pytest.raises(OptionError, match="the database cannot append"):
        Kind("c", BuyArgs, encrypted=True).check_unique(Unique((), then="collect", into="others"))
    Kind("c", BuyArgs).check_unique(Unique((), then="collect", into="others"))


def test_a_periodic_job_has_the_same_definition_in_each_program_until_the_newest_key_changes():
    def defined():
        registry = Registry()
        registry.periodic("nightly", Every(60), BUY)
        return registry.periodics["nightly"]

    one, two = defined(), defined()
    assert one.hash == two.hash
    assert one.args != two.args
    use_keys({"newest": UNIQUE, "new": NEW})
    assert defined().hash != one.hash


@pytest.mark.parametrize("stored", [b"1e400", b'"\\ud800"'])
def test_stored_args_that_postgres_takes_and_no_converter_fail_alone(stored):
    sealed = codec(BUY).encode(BUY).replace(b'"user":7', b'"user":' + stored)
    assert stored in sealed

    assert "the stored JSON cannot be read" in str(codec(BUY).decode_at(0, sealed))
    assert codec(BUY).decode_whole(b"[" + sealed + b"]") is None


def test_a_hidden_value_that_does_not_fit_any_more_is_not_told():
    @dataclass
    class Narrow(Args, kind="narrow"):
        card: Secret[Literal["a", "b"]]

    with pytest.raises(ArgsError) as refused:
        Kind("narrow", Narrow).codec.decode(b'{"card":"TOPSECRET"}')

    assert "TOPSECRET" not in str(refused.value)
    assert "card" in str(refused.value)


def test_a_rotation_encrypts_with_the_newest_key_what_another_one_has_and_leaves_the_rest():
    use_keys({"old": OLD})
    stored = json.loads(codec(BUY).encode(BUY))
    use_keys({"new": NEW, "old": OLD})

    rotated = resealed(stored, "buy")

    assert rotated["card"]["key"] == rotated["others"][0]["number"]["key"] == "new"
    assert resealed(rotated, "buy") is rotated
    use_keys({"new": NEW})
    assert codec(BUY).decode(json.dumps(rotated).encode()) == BUY


def test_keys_from_a_function_are_asked_for_again_when_an_unknown_name_is_met(monkeypatch):
    asked = []

    def vault():
        asked.append(1)
        return {"old": OLD} if len(asked) == 1 else {"new": NEW, "old": OLD}

    use_keys(vault)
    before = codec(BUY).encode(BUY)
    monkeypatch.setattr(ring, "REREAD", 0.0)
    stored = moved(before, lambda tree: None)
    use_keys({"new": NEW})
    newer = codec(BUY).encode(BUY)
    use_keys(vault)
    asked.clear()

    assert codec(BUY).decode(stored) == BUY
    assert len(asked) == 1
    assert codec(BUY).decode(newer) == BUY
    assert len(asked) == 2


def test_a_source_of_keys_that_fails_fails_the_job_and_tells_no_more_than_its_name(monkeypatch):
    stored = codec(BUY).encode(BUY)

    def vault():
        raise OSError("token=hvs.secret")

    use_keys(vault)

    refused = codec(BUY).decode_at(0, stored)
    assert refused.reason == "encrypted with the key 'new', and the keys could not be read: OSError"


def b64(key):
    return base64.b64encode(key).decode()


def test_keys_come_from_the_environment_or_from_a_configuration_and_no_text_has_them(monkeypatch):
    ring.forget()
    with pytest.raises(ConfigError, match="encrypted args need a key: set FASTQ_ARGS_KEYS"):
        codec(BUY).encode(BUY)

    text = f"2026-11:{b64(NEW)},2026-05:{b64(OLD)}"
    monkeypatch.setenv("FASTQ_ARGS_KEYS", text)
    monkeypatch.setenv("FASTQ_ARGS_UNIQUE_KEY", b64(UNIQUE))
    assert json.loads(codec(BUY).encode(BUY))["card"]["key"] == "2026-11"
    assert key(BUY, Unique("card"))
    shown = repr(Config.load())
    assert "args_keys='•••'" in shown
    assert b64(NEW)[:10] not in shown
    assert b64(UNIQUE)[:10] not in shown


@pytest.mark.parametrize(
    "text", ["2026", "2026:", f"2026:{b64(NEW[:16])}", f"a b:{b64(NEW)}", f"a:{b64(NEW)},a:{b64(OLD)}", f"a:{b64(NEW)}!"]
)
def test_a_setting_that_is_no_ring_is_refused_without_a_part_of_it(text):
    with pytest.raises(ConfigError) as caught:
        Config.load({"FASTQ_ARGS_KEYS": text})

    assert "FASTQ_ARGS_KEYS: expected NAME:BASE64 of 32 bytes each" in str(caught.value)
    assert text not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("source", [{"a b": NEW}, {"a": b"short"}, {"a": "text"}, 7], ids=repr)
def test_keys_that_are_none_are_refused_by_name(source):
    with pytest.raises(ConfigError, match="use_keys"):
        use_keys(source)
    with pytest.raises(ConfigError, match="unique: expected 32 bytes"):
        use_keys({"a": NEW}, unique=b"short")


def test_an_exception_of_a_worker_is_told_without_the_secrets_of_its_job():
    registry = Registry()

    @registry.register
    class BuyWorker(Worker[BuyArgs]):
        def work(self, job: Job[BuyArgs]) -> None:
            try:
                {}[job.args.card.reveal()]
            except KeyError as error:
                raise ValueError(f"user {job.args.user}: {job.args.card.reveal()} was refused") from error

    with pytest.raises(ValueError, match="refused") as caught:
        registry.workers["buy"].called(Job.of(BUY))

    assert told(caught.value) == "ValueError: user 7: ••• was refused"
    assert CARD not in trace_of(caught.value)
    assert "KeyError: '•••'" in trace_of(caught.value)
    assert CARD in str(caught.value)  # the exception is not changed


def test_what_an_exception_is_told_without_are_the_values_of_secrets_or_all_of_encrypted_args():
    assert {*hidden_texts(BUY, whole=False)} == {CARD, "5500", "5501"}
    assert {*hidden_texts(PayArgs(CARD, 123456), whole=True)} == {CARD, "123456"}


def test_a_worker_of_a_plain_kind_has_nothing_around_it():
    @dataclass
    class PlainArgs(Args, kind="plain"):
        x: int

    registry = Registry()

    @registry.register
    class PlainWorker(Worker[PlainArgs]):
        def work(self, job: Job[PlainArgs]) -> None: ...

    worker = registry.workers["plain"]
    assert worker.called == worker.work
    assert worker.kind.codec.as_written


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("returned", [False, True], ids=["raised", "returned"])
def test_an_exception_of_a_batch_worker_is_told_without_the_values_of_any_of_its_jobs(is_async, returned):
    error = ValueError(f"refused: {CARD}")

    def give(jobs):
        if returned:
            return [None, error]
        raise error

    async def give_async(self, jobs):
        return give(jobs)

    body = {"work_many": give_async if is_async else lambda self, jobs: give(jobs)}
    registry = Registry()
    registry.register(types.new_class("PayWorker", (Worker[PayArgs],), {}, lambda own: own.update(body)))
    jobs = [Job.of(PayArgs("4111"), id=1), Job.of(PayArgs(CARD), id=2)]

    with suppress(ValueError):
        result = registry.workers["pay"].called(jobs)
        if is_async:
            asyncio.run(result)

    assert told(error) == "ValueError: refused: •••"
