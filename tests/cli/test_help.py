"""What the command line tells about itself, and how it refuses."""

import io
import os
from dataclasses import fields

import pytest
from psycopg.conninfo import make_conninfo

from fastq.cli import COMMANDS, run
from fastq.cli.terminal import output
from fastq.cli.terminal.parser import Parser
from fastq.config import Config, variable_of
from tests.helpers import execute

pytestmark = pytest.mark.further

PROGRAMS = [name for name in COMMANDS if name not in ("help", "bench")]


@pytest.mark.parametrize("words", [(), ("help",), ("--help",), ("-h",)])
def test_help_lists_every_command(fastq, words):
    told = fastq(*words)

    assert told.returncode == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in told.stdout] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_help_of_a_command_has_examples(fastq, name):
    told = fastq(name, "--help")

    assert told.returncode == 0
    assert f"\n  fastq {name} " in told.stdout.partition("examples:")[2]
    assert fastq("help", name).stdout == told.stdout


def test_run_has_a_flag_for_every_setting_and_names_its_variable(fastq):
    told = " ".join(fastq("run", "--help").stdout.split())

    missing = [setting.name for setting in fields(Config) if f"[{variable_of(setting.name)};" not in told]
    assert missing == [setting.name for setting in fields(Config) if setting.metadata["secret"]]


def test_help_settings_tells_flag_variable_and_default_of_every_setting(fastq):
    told = fastq("help", "settings").stdout

    assert [setting.name for setting in fields(Config) if f"{variable_of(setting.name)}   default: " not in told] == []


def test_an_unknown_command_is_answered_with_the_nearest_one(fastq):
    told = fastq("jbos")

    assert (told.returncode, told.stderr) == (2, "fastq: no command 'jbos'; did you mean jobs?\n")


@pytest.mark.parametrize(("word", "command"), [("limits", "gates"), ("rate", "gates"), ("batches", "workflows")])
def test_a_word_for_the_things_that_a_command_is_about_names_the_command(word, command, fastq):
    told = fastq(word, "list")

    assert (told.returncode, told.stderr) == (2, f"fastq: no command '{word}'; did you mean {command}?\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "the following arguments are required: TARGET; see fastq run --help"),
        (("run", "app:registry", "--nonsense", "1"), "unrecognized arguments: --nonsense 1"),
        (("run", "app:registry", "--poll-interval", "soon"), "--poll-interval: expected seconds, 0.01 to 60, got 'soon'"),
        (("run", "app:registry", "--procs", "9999"), "--procs: expected a whole number, 0 to 256, got '9999'"),
        (("run", "app:registry", "--queue", "a=0"), "--queue: expected NAME or NAME=CONCURRENCY"),
        (
            ("run", "app:registry", "--beat-interval", "10"),
            "FASTQ_BEAT_INTERVAL (10) must be",
        ),
        (("run", "nowhere:registry"), "no module 'nowhere'"),
        (("run", "app"), "expected MODULE:REGISTRY such as app.jobs:registry, got 'app'; for a registry called"),
        (("run", "app:empty"), "app:empty has no workers; write @empty.register above them"),
        (("dev", "app.py"), "expected MODULE:REGISTRY"),
        (
            ("jobs",),
            "one of list, count, tail, show, why, stack, wait, signal, retry, cancel, delete, move, edit, rotate-keys; see",
        ),
        (("jobs", "list", "--bogus"), "fastq jobs list: unrecognized arguments: --bogus; see fastq jobs list --help"),
        (("leader", "resign", "--term", "x"), "argument --term: expected a whole number, got 'x'"),
        (("enqueue", "note", "{}", "--delay", "x"), "argument --delay: expected seconds, got 'x'"),
        (("bench", "--bogus"), "fastq bench: unrecognized arguments: --bogus; see fastq bench --help"),
        (("jobs", "list", "--state", "done"), "invalid choice: 'done' (choose from"),
        (("jobs", "show", "x"), "expected a whole number above 0, got 'x'"),
        (("jobs", "list"), "no database is configured, and there is no embedded one in .fastq/postgres"),
        (("enqueue", "note", "{text: 1}"), "expected a JSON object, got '{text: 1}'"),
        (("enqueue", "note", "[1]"), "expected a JSON object, got '[1]'"),
        (("enqueue", "note", '{"text": "\\ud800"}'), "(field 'text': a lone surrogate, which UTF-8 cannot hold"),
        (("enqueue", "note", b"{\xff}"), "(byte 1 is no UTF-8)"),
        (("enqueue", "note", '{"a":' * 20_000), "args of kind 'note': nested deeper than 64 levels"),
        (("migrate", "--data-dir", "/dev/null/here"), "no folder for the embedded postgres can be made at /dev/null/here"),
        (
            ("enqueue", "note", '{"text": 1}', "--app", "app:registry"),
            "args of kind 'note', field 'text': expected `str`, got `int`",
        ),
        (("enqueue", "note", '{"txt": 1}', "--app", "app:registry"), "missing required field `text`"),
        (
            ("enqueue", "note", '{"text": "", "tims": 2}', "--app", "app:registry"),
            "field 'tims': no such field; app.NoteArgs has text, times",
        ),
        (("enqueue", "mail", '{"to": ""}', "--app", "app:registry"), "field 'to': no such field; app.MailArgs has none"),
        (("enqueue", "nota", "{}", "--app", "app:registry"), "app:registry has no worker for kind 'nota'; it has mail, note"),
    ],
    ids=lambda value: " ".join(map(str, value))[:60] if isinstance(value, tuple) else "",
)
def test_a_mistake_ends_with_code_2_and_a_line_that_names_it(fastq, folder, words, said):
    told = fastq(*words)

    assert told.returncode == 2
    assert said in told.stderr
    assert "Traceback" not in told.stderr
    assert not (folder / ".fastq").exists()


def test_a_variable_with_a_bad_value_is_named_with_what_is_allowed(fastq):
    told = fastq("jobs", "list", FASTQ_STATEMENT_TIMEOUT="never")

    assert told.returncode == 2
    assert told.stderr == "fastq: FASTQ_STATEMENT_TIMEOUT: expected seconds, 0.1 to 600, got 'never'; the default is 10.0\n"


def test_a_flag_wins_over_its_variable(fastq):
    told = fastq("migrate", "--sql", "--schema", "jobs_2", FASTQ_SCHEMA="jobs_3")

    assert 'create table "jobs_2".job (' in told.stdout
    assert "jobs_3" not in told.stdout


@pytest.mark.parametrize("command", [("run", "app:registry"), ("migrate",), ("jobs", "list"), ("enqueue", "note", "{}")])
def test_a_database_that_is_not_there_ends_with_code_3_and_the_place_that_was_tried(fastq, command):
    told = fastq(*command, FASTQ_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/jobs")

    assert told.returncode == 3
    assert '"127.0.0.1", port 1 failed' in told.stderr
    assert "--database or FASTQ_DATABASE_URL names it" in told.stderr
    assert "hunter2" not in told.stderr


def test_a_server_that_refuses_us_is_not_asked_after(fastq, database):
    told = fastq("jobs", "list", "--database", make_conninfo(database, dbname="nowhere"))

    assert told.returncode == 3
    assert 'database "nowhere" does not exist' in told.stderr
    assert "is the server running?" not in told.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": "99999"}, 'invalid port number: "99999"'),
        ({"sslmode": "bogus"}, 'invalid sslmode value: "bogus"'),
    ],
)
def test_a_url_that_cannot_be_followed_is_not_called_a_server_that_does_not_run(fastq, options, said):
    told = fastq("jobs", "list", "--database", make_conninfo("postgresql://me@127.0.0.1/jobs", **options))

    assert told.returncode == 3
    assert said in told.stderr
    assert "is the server running?" not in told.stderr


FULL = """create function full_disk() returns trigger language plpgsql as
$$ begin raise exception 'no space left on device' using errcode = 'disk_full'; end $$"""


def test_a_full_disk_is_not_called_a_server_that_does_not_run(fastq, database):
    execute(database, FULL)
    execute(database, "create trigger full_disk before insert on fastq.job execute function full_disk()")

    told = fastq("enqueue", "note", '{"text": ""}', "--database", database)

    assert (told.returncode, told.stderr) == (3, "fastq: no space left on device\n")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@127.0.0.1:1/jobs",
        "postgresql://me:hunter2@127.0.0.1:port/jobs",
        "postgres:/me:hunter2@127.0.0.1",
        "me:hunter2@127.0.0.1/jobs",
        "host=127.0.0.1 port=1 password=hunter2",
        "host=127.0.0.1 port=1 password = 'hunter2 x' nonsense",
        "postgresql://127.0.0.1:1/jobs?password=hunter2&x=1",
        "postgresql://me:with@hunter2@127.0.0.1:1/jobs",
        "postgresql://me:hunter2@with@127.0.0.1:port/jobs",
    ],
)
@pytest.mark.parametrize("command", [("migrate",), ("version",)])
def test_no_password_is_ever_printed(fastq, command, url):
    told = fastq(*command, "--database", url)

    assert "hunter2" not in told.stdout + told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    "url", ["postgresql://me:with@hunter2@db/jobs", "host=db password=hunter2", "postgresql://db/jobs?password=hunter2"]
)
@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list", "--databse"),
        ("jobs", "list", "--limit"),
        ("jobs", "list", "--state"),
        ("jobs",),
        ("migrate", "--databse"),
        ("run",),
        ("bench", "--databse"),
        ("enqueue", "note"),
        (),
    ],
)
def test_a_url_in_a_place_where_none_belongs_is_told_without_its_password(fastq, words, url):
    told = fastq(*words, url)

    assert told.returncode == 2
    assert "hunter2" not in told.stdout + told.stderr


@pytest.mark.parametrize("command", [("run", "app:registry"), ("jobs", "list"), ("queues", "list"), ("enqueue", "note", "{}")])
def test_a_schema_that_is_not_migrated_ends_with_code_3_and_the_remedy(fastq, empty_database, command):
    told = fastq(*command, FASTQ_DATABASE_URL=empty_database)

    assert told.returncode == 3
    assert "run fastq migrate" in told.stderr


@pytest.mark.parametrize("words", [("migrate", "--sql"), ("run", "app:registry", "--database", "postgresql://127.0.0.1:1/x")])
def test_a_misspelt_variable_is_told_once(fastq, words):
    told = fastq(*words, FASTQ_QUEUE="emails")

    assert told.stderr.count("warning: FASTQ_QUEUE is no setting; did you mean FASTQ_QUEUES?\n") == 1


@pytest.mark.parametrize("topic", [*COMMANDS, "settings", "jobs list", "queues list", "periodic list", "leader resign"])
def test_no_help_is_wider_than_a_terminal_of_80_columns(fastq, topic):
    words = ("help", topic) if " " not in topic else (*topic.split(), "--help")

    told = fastq(*words, COLUMNS="80").stdout

    assert told
    assert [line for line in told.splitlines() if len(line) > 80] == []


def test_help_of_help_is_the_help(fastq):
    assert fastq("help", "--help").stdout == fastq("help").stdout == fastq("help", "help", "-h").stdout
    assert fastq("help", "run", "--help").stdout == fastq("run", "--help").stdout


@pytest.mark.parametrize(
    ("words", "archive", "target"),
    [
        (["--archive", "off", "app:registry"], False, "app:registry"),
        (["app:registry", "--archive=OFF"], False, "app:registry"),
        (["--archive", "on", "app:registry"], True, "app:registry"),
        (["--archive", "app:registry"], True, "app:registry"),
        (["--no-archive", "off"], False, "off"),
        (["--no-archive", "--", "--archive"], False, "--archive"),
        (["off"], None, "off"),
    ],
)
def test_a_setting_that_is_on_or_off_may_be_said_as_its_variable_says_it(words, archive, target):
    parser = Parser(prog="fastq run")
    run.add_arguments(parser)

    options = parser.parse_args(words)

    assert (options.archive, options.target) == (archive, target)


def test_a_line_is_broken_at_blanks_on_a_terminal_and_nowhere_else(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    line = "database   Postgres 18.4, database shop-eu-west at /run/postgresql as app"
    ours, theirs = os.openpty()
    with os.fdopen(ours, "w"), os.fdopen(theirs, "w") as terminal:
        assert output.folded(line, 11, terminal).splitlines() == [
            "database   Postgres 18.4, database",
            "           shop-eu-west at",
            "           /run/postgresql as app",
        ]
    assert output.folded(line, 11, io.StringIO()) == line
