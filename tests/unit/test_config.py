"""The configuration: where a setting comes from, and what a bad one is told."""

import os
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial

import pytest

from fastq import Client, Lease
from fastq.cli.terminal.settings import flag_of
from fastq.config import Config, variable_of
from fastq.environment import publish, unknown_variables
from fastq.errors import ConfigError

BAD = {  # by the beginning of what is allowed: values that are not
    "seconds": ["", "x", "-1", "nan", "inf", "1e9"],
    "a whole number": ["x", "1.5", "-1", "99999999999", "0x10"],
    "1/true": ["maybe", "2"],
    "auto or c": ["fast"],
    "debug or info": ["loud"],
    "a number": ["x", "0", "nan", "inf"],
    "STATE=DAYS": ["x", "completed", "completed=x", "=1", "completed=-1", "completed=1,completed=2"],
    "a name of 1 to 63": ["Billing", "-a", "a b", "a" * 64, "ä"],
    "a name of one line": ["a" * 41, "a\nb", "a\x00"],
    "none or blue": ["pink", "#f00"],
    "a name of 1 to 48": ["Fastq", "a-b", "1a", 'a"b', "a" * 49, "ä"],
    "HOST:PORT": ["localhost", ":9464", "127.0.0.1:99999", "127.0.0.1:x", "::1:9464", "http://x:1", "[::1]"],
    "NAME or NAME=": ["a=0", "a=1001", "a=b", "=3", "UPPER", "a b", ",", "a=-1"],
}
CHECKED = [setting for setting in fields(Config) if setting.metadata["allowed"] != "text" and not setting.metadata["secret"]]


def bad_values(setting):
    (values,) = (values for start, values in BAD.items() if setting.metadata["allowed"].startswith(start))
    return [value for value in values if value]


@pytest.mark.parametrize(
    ("setting", "value"),
    [(setting, value) for setting in CHECKED for value in bad_values(setting)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_bad_value_is_told_with_its_variable_what_came_and_what_is_allowed(setting, value):
    with pytest.raises(ConfigError) as caught:
        Config.load({variable_of(setting.name): value})

    assert str(caught.value).startswith(f"{variable_of(setting.name)}: expected {setting.metadata['allowed']}, got {value!r}")
    assert "default" in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [(setting, value) for setting in CHECKED for value in bad_values(setting)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_bad_value_is_refused_as_an_argument_too(setting, value):
    expected = f"{setting.name}: expected {setting.metadata['allowed']}, got {value!r}"
    for make in (Config, partial(Config.load, {}), partial(replace, Config())):
        with pytest.raises(ConfigError) as caught:
            make(**{setting.name: value})

        assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("procs", -5),
        ("procs", 2.0),
        ("procs", True),
        ("procs", "2"),
        ("batch", 0),
        ("poll_interval", float("nan")),
        ("poll_interval", None),
        ("archive", "yes"),
        ("log_level", "INFO"),
        ("schema", 'a"; drop table t; --'),
        ("schema", b"fastq"),
        ("leader_domain", "Billing"),
        ("queues", {}),
        ("queues", {"Emails": 1}),
        ("queues", {"a,b": 1}),
        ("queues", {"a": 1_001}),
        ("queues", {"a": None}),
        ("queues", {1: 1}),
        ("queues", ["a"]),
        ("keep", "Emails=1"),
        ("data_dir", None),
    ],
)
def test_a_value_of_python_is_refused_that_no_text_would_give(name, value):
    with pytest.raises(ConfigError, match=f"^{name}: expected "):
        Config(**{name: value})
    with pytest.raises(ConfigError, match=f"^{name}: expected "):
        replace(Config(), **{name: value})


@pytest.mark.parametrize(
    "url", ["postgresql://ada:se@cret@db/shop", "host=db password='se cret' user=ada", "host=db password=se@cret"]
)
def test_what_a_configuration_shows_of_itself_holds_no_password(url):
    config = Config(database_url=url, procs=3)

    assert "cret" not in repr(config)
    assert "db" in repr(config)
    assert "procs=3" in repr(config)


def test_a_url_of_another_type_is_refused_without_quoting_its_password():
    with pytest.raises(ConfigError, match=r"^database_url: expected text, got a bytes;"):
        Config(database_url=b"postgresql://ada:secret@db/shop")


def test_a_configuration_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"^config: expected a Config, such as Config.load\(procs=2\), got dict"):
        Client(config={"schema": "fastq"})


@pytest.mark.parametrize("config", [None, Config()])
@pytest.mark.parametrize("make", [Client, partial(Lease, "report")])
def test_a_schema_that_is_no_name_reaches_no_statement(make, config):
    with pytest.raises(ConfigError) as caught:
        make(url="postgresql://nowhere", schema='a"; drop table t; --', config=config)

    assert str(caught.value) == (
        "schema: expected a name of 1 to 48 of a-z, 0-9 and '_', not starting with a digit, "
        "got 'a\"; drop table t; --'; the default is 'fastq'"
    )


def test_a_setting_is_named_as_whoever_gave_it_spelt_it():
    with pytest.raises(ConfigError, match=r"^--archive-days: expected a whole number, 1 to 3650, got '0'"):
        Config.load({}, flag_of, archive_days="0")
    with pytest.raises(ConfigError, match=r"^--queue: expected NAME"):
        Config.load({}, flag_of, queues="A")
    with pytest.raises(ConfigError, match=r"^archive_days: expected a whole number"):
        Config.load({}, archive_days="0")


def test_what_was_given_comes_before_the_environment_and_that_before_the_default():
    environment = {"FASTQ_PROCS": "3", "FASTQ_BATCH": "100"}

    config = Config.load(environment, procs="5", batch=None)

    assert (config.procs, config.batch, config.threads) == (5, 100, 16)
    assert Config.load({}) == Config()


def test_an_empty_variable_counts_as_not_set():
    assert Config.load({"FASTQ_PROCS": "", "FASTQ_SCHEMA": "  "}) == Config()


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("default", {"default": 0}),
        ("default=16,emails=4", {"default": 16, "emails": 4}),
        (" a , b.c-d_1=1 ", {"a": 0, "b.c-d_1": 1}),
    ],
)
def test_queues_are_read_with_their_concurrency(text, queues):
    assert Config.load({"FASTQ_QUEUES": text}).queues == queues


def test_a_queue_that_names_no_concurrency_gets_the_number_of_threads():
    assert Config.load({}, queues="a,b=2", threads="7").concurrency == {"a": 7, "b": 2}


@pytest.mark.parametrize(("text", "value"), [("1", True), ("YES", True), ("off", False), ("false", False)])
def test_flags_are_read_from_words(text, value):
    assert Config.load({"FASTQ_ARCHIVE": text}).archive is value


def test_a_beat_that_could_be_lost_without_a_death_is_required():
    with pytest.raises(ConfigError, match=r"FASTQ_BEAT_INTERVAL \(5\) must be .* FASTQ_PROCESS_TTL \(10\)"):
        Config.load({"FASTQ_PROCESS_TTL": "10"})


@pytest.mark.parametrize(
    ("interval", "ttl", "fits"), [("5", "15", True), ("7", "15", True), ("0.4", "1", True), ("0.45", "1", False)]
)
def test_settings_are_refused_that_leave_no_time_to_lose_two_beats(interval, ttl, fits):
    given = {"FASTQ_BEAT_INTERVAL": interval, "FASTQ_PROCESS_TTL": ttl}
    if fits:
        config = Config.load(given)
        assert config.beat_interval + 3 * config.beat_timeout <= config.process_ttl
        return
    with pytest.raises(ConfigError, match=r"below it by 0\.6 s: .* lower the interval to 0\.333333, or raise the ttl to 1\.35"):
        Config.load(given)


def test_a_setting_that_does_not_exist_is_refused_and_one_that_is_spelt_alike_named():
    with pytest.raises(ConfigError, match="no setting is called speed; fastq help settings lists them"):
        Config.load({}, speed=1)
    with pytest.raises(ConfigError, match=r"no setting is called proc; did you mean procs\?"):
        Config.load({}, proc=3)


def test_processes_are_counted_by_the_cores_when_left_open():
    assert Config().process_count >= 1
    assert Config(procs=3).process_count == 3


def test_every_default_is_allowed_and_every_setting_explains_itself():
    for setting in CHECKED:
        default = getattr(Config(), setting.name)
        if not isinstance(default, dict):
            assert setting.metadata["parse"](str(default)) == default, setting.name
        assert setting.metadata["help"], setting.name


def test_a_configuration_does_not_change():
    with pytest.raises(FrozenInstanceError):
        Config().procs = 3


def test_a_variable_that_is_no_setting_is_told_with_the_one_that_may_be_meant():
    environment = {
        "FASTQ_QUEUE": "emails",
        "FASTQ_DATABASE": "postgresql://",
        "FASTQ_NONSENSE": "1",
        "FASTQ_QUEUES": "emails",
        "FASTQ_TEST_POSTGRES": "16",
        "FASTQ_PORT_80_TCP": "tcp://10.0.0.1:80",
        "HOME": "/",
    }

    assert unknown_variables(environment) == [
        "FASTQ_DATABASE is no setting; did you mean FASTQ_DATABASE_URL?",
        "FASTQ_NONSENSE is no setting; fastq help settings lists them",
        "FASTQ_QUEUE is no setting; did you mean FASTQ_QUEUES?",
    ]


def test_what_a_command_was_given_is_what_its_environment_says_and_nothing_else(monkeypatch):
    monkeypatch.setenv("FASTQ_SCHEMA", "from_outside")
    monkeypatch.setenv("FASTQ_BATCH", "wrong, but the flag wins")
    given = Config(
        database_url="postgresql://a:b@h/d", queues={"emails": 4, "default": 0}, archive=False, statement_timeout=2.5, batch=7
    )

    publish(given)

    assert Config.load() == given
    set_now = {name for name in os.environ if name.startswith("FASTQ_")} - {"FASTQ_CODEC"}
    assert set_now == {f"FASTQ_{n}" for n in ("DATABASE_URL", "QUEUES", "ARCHIVE", "STATEMENT_TIMEOUT", "BATCH", "SCHEMA")}
    publish(Config())
    assert Config.load() == Config()
