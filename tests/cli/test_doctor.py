"""`fastq doctor`: what a person sees at it, what a program reads, and the exit codes."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

import pytest

from fastq.admin import doctor
from tests.cli.conftest import command, environment
from tests.helpers import execute

pytestmark = pytest.mark.further

KEYS = {"check", "level", "found", "means", "remedy", "subject", "asked"}


@pytest.fixture
def examine(fastq, database):
    """Give a function that runs the command against the database."""
    return lambda *options, **variables: fastq("doctor", *options, FASTQ_DATABASE_URL=database, **variables)


def on_terminal(folder, columns, *words, **variables):
    """Run a command whose output is a terminal, and return what it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = {name: value for name, value in environment(**variables).items() if name != "COLUMNS"} | {"TERM": "xterm-256color"}
    program = subprocess.Popen(command(*words), cwd=folder, env=settings, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 65_536)
        except OSError:  # its end
            break
        if not chunk:
            break
        shown += chunk
    program.wait(30)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_a_pipe_gets_whole_lines_without_colour_and_the_line_to_type(examine, database):
    execute(database, "alter table fastq.job set (autovacuum_enabled = off)")
    told = examine("--only", "autovacuum", "--only", "schema")

    assert told.returncode == 4
    assert told.stdout.splitlines()[0].startswith("ok    schema ")
    assert told.stdout.splitlines()[1:] == [
        "bad   autovacuum     autovacuum is off for job",
        "                     nothing removes its dead rows",
        '      > alter table "fastq".job reset (autovacuum_enabled);',
    ]
    assert told.stderr == "1 bad, 1 ok\n"


def test_a_terminal_gets_colour_and_no_line_but_those_to_type_is_wider_than_it(folder, database):
    execute(database, "alter table fastq.job set (autovacuum_enabled = off)")
    shown = on_terminal(folder, 60, "doctor", FASTQ_DATABASE_URL=database)
    plain = on_terminal(folder, 60, "doctor", FASTQ_DATABASE_URL=database, NO_COLOR="1")

    assert "\x1b[1;31mbad   \x1b[0m" in shown
    assert "\x1b[" not in plain
    assert [line for line in plain.splitlines() if len(line) > 60 and not line.startswith("      > ")] == []
    assert '      > alter table "fastq".job reset (autovacuum_enabled);' in plain.splitlines()


def test_json_has_the_same_keys_for_each_finding(examine):
    told = json.loads(examine("--json").stdout)

    assert told.keys() == {"schema", "version", "level", "findings"}
    assert {frozenset(finding) for finding in told["findings"]} == {frozenset(KEYS)}
    assert {finding["check"] for finding in told["findings"]} == set(doctor.CHECKS)


@pytest.mark.parametrize(
    ("only", "ill", "code"),
    [
        ("schema", "select", 0),
        ("autovacuum", "alter table fastq.job reset (fillfactor)", 1),
        ("autovacuum", "alter table fastq.job set (autovacuum_enabled = off)", 4),
        ("schema", "delete from fastq.migration where version > 3", 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(examine, database, only, ill, code):
    execute(database, ill)

    assert examine("--only", only).returncode == code


def test_a_note_is_no_reason_for_another_exit_code(examine):
    told = examine("--only", "pooler", FASTQ_POLL_ONLY="1")

    assert (told.returncode, told.stderr) == (0, "1 note\n")
    assert "      > unset FASTQ_POLL_ONLY" in told.stdout


def test_a_database_that_is_not_migrated_or_not_there_has_the_code_for_that(fastq, empty_database):
    bare = fastq("doctor", "--database", empty_database, "--only", "schema")
    gone = fastq("doctor", FASTQ_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/jobs")

    assert (bare.returncode, gone.returncode) == (3, 3)
    assert "      > fastq migrate\n" in bare.stdout
    assert "the database does not answer" in gone.stdout
    assert "hunter2" not in gone.stdout + gone.stderr


def test_an_unknown_check_is_a_mistake_of_usage(examine):
    told = examine("--only", "clocks")

    assert told.returncode == 2
    assert "no check is called 'clocks'; there are connection, schema, pooler" in told.stderr


def test_the_help_names_each_check_with_its_question(fastq):
    told = fastq("doctor", "--help").stdout

    assert [name for name, check in doctor.CHECKS.items() if f"  {name:13s}  {check.asks}" not in told] == []
    assert max(map(len, told.partition("examples:")[2].splitlines())) <= 80


def test_what_comes_from_rows_drives_no_terminal(examine, database):
    execute(database, "insert into fastq.job (kind, queue) values ('nap', E'a\\x1b[31m')")
    told = examine("--only", "queues")

    assert "\x1b" not in told.stdout
    assert "\\x1b[31m" in told.stdout
