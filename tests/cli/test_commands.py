"""What the commands do to a database, as a user and as a script see it."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fastq import Args, Client, Unique
from fastq.config import Config
from tests.cli.conftest import command, environment
from tests.helpers import execute


@dataclass
class CountArgs(Args, kind="count"):
    number: int


def test_migrate_does_what_is_missing_and_says_so(fastq, empty_database):
    def migrate(*words):
        return fastq("migrate", *words, FASTQ_DATABASE_URL=empty_database).stdout

    assert migrate("--dry-run").startswith("schema 'fastq' lacks: 0001_initial")
    assert execute(empty_database, "select to_regclass('fastq.job')") == [(None,)]
    assert migrate().startswith("schema 'fastq' has now: 0001_initial")
    assert migrate() == "schema 'fastq' is up to date\n"
    assert json.loads(migrate("--json", "--dry-run")) == {"schema": "fastq", "missing": []}
    assert json.loads(migrate("--json", "--schema", "jobs_2"))["applied"][0] == "0001_initial"


def test_migrate_prints_sql_that_does_the_same(fastq, empty_database):
    execute(empty_database, fastq("migrate", "--sql").stdout)

    assert json.loads(fastq("migrate", "--json", FASTQ_DATABASE_URL=empty_database).stdout)["applied"] == []


def test_migrate_prints_sql_from_a_version_on(fastq, empty_database):
    initial, commit, _ = fastq("migrate", "--sql").stdout.partition("commit;")
    execute(empty_database, initial + commit)
    assert execute(empty_database, "select max(version) from fastq.migration") == [(1,)]

    execute(empty_database, fastq("migrate", "--sql", "--from", 1).stdout)

    assert json.loads(fastq("migrate", "--json", FASTQ_DATABASE_URL=empty_database).stdout)["applied"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "1"), "--from goes with --sql"),
        (("--sql", "--from", "99"), "expected the version that the schema has, 0 to "),
        (("--sql", "--from", "two"), "got 'two'"),
    ],
)
def test_migrate_says_what_is_wrong_with_a_version(fastq, words, said):
    told = fastq("migrate", *words)

    assert told.returncode == 2
    assert said in told.stderr


def test_enqueue_stores_the_args_and_options(on_database, database):
    told = on_database(
        "enqueue",
        "note",
        '{"text": "é\\u0001"}',
        "--queue",
        "slow",
        "--priority",
        3,
        "--delay",
        60,
        "--max-attempts",
        4,
        "--tag",
        "a",
        "--tag",
        "b",
    )

    assert told == "enqueued job 1\n"
    assert execute(
        database,
        "select kind, args ->> 'text', queue, priority, max_attempts, tags, state::text, "
        "scheduled_at - created_at between '59 s' and '61 s' from fastq.job",
    ) == [("note", "é\x01", "slow", 3, 4, ["a", "b"], "scheduled", True)]


def test_enqueue_with_the_app_takes_the_options_of_the_kind(on_database, database):
    on_database("enqueue", "mail", "{}", "--app", "app:registry")
    told = on_database("enqueue", "note", "-", "--app", "app:registry", "--json", stdin='{"text": "x", "times": 2}')

    assert json.loads(told) == {"id": 2}
    assert execute(database, "select kind, queue, max_attempts, args from fastq.job order by id") == [
        ("mail", "emails", 25, {}),
        ("note", "default", 7, {"text": "x", "times": 2}),
    ]


def test_enqueue_with_the_app_knows_fields_that_are_not_written_where_they_have_their_default(on_database, database, folder):
    (folder / "app.py").write_text(
        (folder / "app.py").read_text()
        + "import msgspec\nfrom fastq import kind\n"
        + "@kind('sparse')\nclass Sparse(Args, msgspec.Struct, omit_defaults=True):\n    times: int = 1\n"
        + "@registry.register\nclass SparseWorker(Worker[Sparse]):\n    def work(self, job):\n        pass\n"
    )

    on_database("enqueue", "sparse", '{"times": 1}', "--app", "app:registry")
    assert "no such field; app.Sparse has times" in on_database(
        "enqueue", "sparse", '{"time": 1}', "--app", "app:registry", code=2
    )
    assert execute(database, "select args from fastq.job") == [({},)]


def test_enqueue_refuses_an_option_that_is_not_allowed_and_stores_nothing(on_database, database):
    assert "priority 9: expected a whole number from 1" in on_database("enqueue", "note", "{}", "--priority", 9, code=2)
    assert execute(database, "select count(*) from fastq.job") == [(0,)]


@pytest.mark.parametrize("at", ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01"])
def test_jobs_are_listed_and_shown_whatever_times_they_have(at, on_database, database):
    execute(
        database, "insert into fastq.job (kind, args, state, seq, scheduled_at) values ('note', '{}', 'scheduled', null, %s)", at
    )

    assert "scheduled" in on_database("jobs", "list")
    assert "scheduled" in on_database("jobs", "show", 1)
    assert json.loads(on_database("jobs", "list", "--json"))[0]["scheduled_at"][:4] in ("0001", "9999")


def test_jobs_are_listed_for_people_and_for_scripts(on_database):
    for number in range(3):
        on_database("enqueue", "note", json.dumps({"text": str(number)}), "--tag", f"t{number}")
    on_database("jobs", "cancel", 2)

    header, *lines = on_database("jobs", "list").splitlines()
    assert header.split() == ["id", "state", "kind", "queue", "attempt", "enqueued", "next/end", "error"]
    assert [line.split()[:5] for line in lines] == [
        ["3", "available", "note", "default", "0/25"],
        ["2", "cancelled", "note", "default", "0/25"],
        ["1", "available", "note", "default", "0/25"],
    ]
    jobs = json.loads(on_database("jobs", "list", "--json", "--state", "available", "--state", "cancelled", "--limit", 2))
    assert [(job["id"], job["state"], job["tags"]) for job in jobs] == [(3, "available", ["t2"]), (2, "cancelled", ["t1"])]
    assert json.loads(on_database("jobs", "list", "--json", "--tag", "t9")) == []
    assert json.loads(on_database("jobs", "list", "--json", "--kind", "note", "--queue", "default", "--tag", "t0"))[0]["id"] == 1


def test_show_tells_everything_of_a_job(on_database, database):
    on_database("enqueue", "note", '{"text": "hello"}', "--tag", "a")
    execute(
        database,
        """update fastq.job set attempt = 1, errors = '[{"at": "2026-01-02T03:04:05+00:00", "attempt": 1, "error": "E: boom",
        "trace": "Traceback:\\n  in work\\nE: boom"}]'""",
    )

    told = on_database("jobs", "show", 1)
    assert 'args      {"text":"hello"}' in told
    assert "attempt 1, 2026-01-02 03:04:05 UTC (" in told
    assert "    Traceback:\n      in work\n    E: boom\n" in told
    shown = json.loads(on_database("jobs", "show", 1, "--json"))
    assert (shown["id"], shown["args"], shown["tags"], shown["errors"][0]["error"]) == (1, {"text": "hello"}, ["a"], "E: boom")
    assert "there is no job 2" in on_database("jobs", "show", 2, code=1)


def test_show_tells_between_which_errors_others_were_left_out(on_database, database):
    on_database("enqueue", "note", '{"text": "hello"}')
    execute(
        database,
        """update fastq.job set attempt = 1240, errors = '[{"attempt": 10, "error": "first"},
        {"attempt": 1240, "error": "last", "left_out": 1229}]'""",
    )

    told = on_database("jobs", "show", 1)
    assert told.index("attempt 10,") < told.index("1,229 errors between these were not kept") < told.index("attempt 1240,")


def test_a_completed_job_is_listed_without_the_error_of_an_attempt_before(on_database, database):
    for _ in range(2):
        on_database("enqueue", "note", "{}")
    execute(database, """update fastq.job set attempt = 2, errors = '[{"error": "E: boom"}]'""")
    execute(
        database,
        "insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, "
        "crashes, queue, kind, args, errors) "
        "select id, created_at, now(), now(), (array['completed', 'discarded'])[id]::fastq.state, "
        "priority, attempt, max_attempts, crashes, queue, kind, args, errors from fastq.job",
    )
    execute(database, "delete from fastq.job")

    discarded, completed = on_database("jobs", "list").splitlines()[1:]

    assert discarded.endswith("E: boom")
    assert "boom" not in completed


def test_jobs_are_retried_cancelled_and_deleted_by_id(on_database, database):
    for _ in range(3):
        on_database("enqueue", "note", "{}", "--delay", 1000)

    assert on_database("jobs", "retry", 1) == "job 1 available\n"
    assert on_database("jobs", "cancel", 2) == "job 2 cancelled\n"
    assert on_database("jobs", "delete", 3) == "job 3 deleted\n"
    assert execute(database, "select id, state::text from fastq.job") == [(1, "available")]
    assert on_database("jobs", "retry", 2) == "job 2 available\n"


def test_a_script_sees_by_the_exit_code_that_a_job_could_not_be_changed(on_database):
    on_database("enqueue", "note", "{}")
    on_database("jobs", "cancel", 1)

    assert "job 1 has ended already (cancelled)" in on_database("jobs", "cancel", 1, code=1)
    assert "job 9 does not exist" in on_database("jobs", "delete", 1, 9, code=1)


def test_queues_are_listed_paused_and_resumed(on_database, database):
    on_database("enqueue", "note", "{}")

    assert on_database("queues", "pause", "default") == "queue 'default' is paused\n"
    assert on_database("queues", "list").splitlines()[1].split() == ["default", "paused", "1", "0", "0", "0", "0", "0"]
    (row,) = json.loads(on_database("queues", "list", "--json"))
    assert (row["name"], row["available"], row["paused_at"] is None) == ("default", 1, False)
    assert on_database("queues", "resume", "default") == "queue 'default' is resumed\n"
    assert json.loads(on_database("queues", "resume", "default", "--json"))["changed"] is False
    assert execute(database, "select paused_at from fastq.queue") == [(None,)]


def test_pausing_a_queue_that_nobody_knows_asks_for_the_name(fastq, database):
    told = fastq("queues", "pause", "emials", FASTQ_DATABASE_URL=database)

    assert told.returncode == 0
    assert "is that its name?" in told.stderr


def test_version_tells_what_runs_and_the_database_if_there_is_one(fastq, on_database):
    told = json.loads(on_database("version", "--json"))

    assert {"fastq", "python", "system", "psycopg", "libpq", "codec", "database", "schema"} <= told.keys()
    assert told["database"].startswith("Postgres ")
    assert told["schema"].startswith("fastq, version ")
    assert "none (no database is configured" in fastq("--version").stdout


def on_a_terminal(words, folder, columns=80, **variables):
    """Run `fastq WORDS` with a terminal as stdout and return what it showed."""
    ours, theirs = os.openpty()
    env = environment(TERM="xterm-256color", **variables) | {"COLUMNS": str(columns)}
    child = subprocess.Popen(command(*words), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # how Linux tells the end of a terminal
            break
        if not block:
            break
        shown += block
    os.close(ours)
    assert child.wait(30) == 0
    return shown.decode()


@pytest.fixture
def hostile_job(on_database, database):
    """Store a job whose error and args try to drive the terminal."""
    on_database("enqueue", "note", json.dumps({"text": "\x1b[2J\u202eabc"}))
    error = [{"error": "\x1b]0;owned\x07\x1b[31m" + "long " * 40, "trace": "a\x1b[2Jb\rc"}]
    execute(database, "update fastq.job set errors = %s::jsonb" % ("'" + json.dumps(error) + "'"))
    return database


@pytest.mark.parametrize("words", [("jobs", "list"), ("jobs", "show", "1")])
def test_what_a_job_holds_cannot_drive_the_terminal(hostile_job, folder, fastq, words):
    shown = on_a_terminal(words, folder, FASTQ_DATABASE_URL=hostile_job, NO_COLOR="1")
    piped = fastq(*words, FASTQ_DATABASE_URL=hostile_job).stdout

    for text in (shown.replace("\r\n", "\n"), piped):
        assert "\\x1b" in text
        assert [mark for mark in text if not mark.isprintable() and mark != "\n"] == []


def test_a_terminal_gets_colours_and_lines_that_fit(hostile_job, folder):
    shown = on_a_terminal(("jobs", "list"), folder, FASTQ_DATABASE_URL=hostile_job)
    plain = on_a_terminal(("jobs", "list"), folder, FASTQ_DATABASE_URL=hostile_job, NO_COLOR="1")

    assert "\x1b[1m" in shown
    assert "\x1b[" not in plain
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "available  note  default" in plain


def test_a_narrow_terminal_folds_lines_rather_than_cut_the_id(hostile_job, folder):
    execute(hostile_job, "update fastq.job set attempt = 12, kind = 'a.kind.of.thirty.characters.xx'")

    shown = on_a_terminal(("jobs", "list"), folder, columns=40, FASTQ_DATABASE_URL=hostile_job, NO_COLOR="1")

    assert shown.splitlines()[1].startswith(" 1  available  a.kind.of.thirty.characters.xx  default  12/25")


def test_a_reader_that_has_seen_enough_is_no_error(on_database, database, folder):
    for _ in range(3):
        on_database("enqueue", "note", "{}")
    ours, theirs = os.pipe()
    os.close(ours)

    child = subprocess.run(
        command("jobs", "list"),
        cwd=folder,
        env=environment(FASTQ_DATABASE_URL=database),
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)

    assert (child.returncode, child.stderr) == (0, "")


def test_the_default_folder_of_the_embedded_postgres_is_in_the_project():
    assert Config().data_dir == ".fastq/postgres"


@pytest.fixture
def stranger(database):
    """Give the URL of a role that may connect and nothing else."""
    name = f"fastq_stranger_{os.getpid()}"
    execute(database, f"create role {name} login")
    yield make_conninfo(database, user=name)
    execute(database, f"drop role {name}")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "app:registry"),
        ("migrate",),
        ("enqueue", "note", "{}"),
        ("jobs", "list"),
        ("queues", "pause", "a"),
        ("periodic", "list"),
        ("leader",),
    ],
    ids=" ".join,
)
def test_a_role_without_rights_is_told_so_in_a_line_with_code_3(fastq, stranger, words):
    told = fastq(*words, FASTQ_DATABASE_URL=stranger)

    assert told.returncode == 3
    assert "permission denied for " in told.stderr
    assert "Traceback" not in told.stderr
    assert words == ("migrate",) or "docs/postgres.md, Roles" in told.stderr


def test_who_may_lead_but_owns_nothing_is_told_so_at_the_start(fastq, database, stranger):
    role = f"fastq_stranger_{os.getpid()}"
    for right in ("usage on schema fastq", "all on all tables in schema fastq", "all on all sequences in schema fastq"):
        execute(database, f"grant {right} to {role}")

    told = fastq("run", "app:registry", FASTQ_DATABASE_URL=stranger)

    assert told.returncode == 3
    assert f"'{role}' is no member of" in told.stderr
    execute(database, f"drop owned by {role}")


def test_version_survives_a_role_without_rights(fastq, stranger):
    told = fastq("version", "--json", FASTQ_DATABASE_URL=stranger)

    assert told.returncode == 0
    said = json.loads(told.stdout)
    assert (said["database"].startswith("Postgres "), said["schema"]) == (True, "none (permission denied for schema fastq)")


def test_output_that_cannot_be_written_is_told_in_a_line(on_database, database, folder):
    on_database("enqueue", "note", "{}")

    env = environment(FASTQ_DATABASE_URL=database)
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(command("jobs", "list"), cwd=folder, env=env, stdout=full, stderr=subprocess.PIPE, check=False)

    assert (told.returncode, told.stderr) == (1, b"fastq: [Errno 28] No space left on device\n")


def test_closed_streams_are_no_error(on_database, database, folder):
    on_database("enqueue", "note", "{}")
    words = " ".join(command("jobs", "list"))

    env = environment(FASTQ_DATABASE_URL=database)
    told = subprocess.run(["/bin/sh", "-c", f"{words} >&-"], cwd=folder, env=env, stderr=subprocess.PIPE, check=False)

    assert (told.returncode, told.stderr) == (0, b"")


def test_an_error_in_the_middle_of_a_change_leaves_all_jobs_as_they_were(on_database, database, fastq):
    on_database("enqueue", "note", '{"text": "hello"}')
    for statement in (
        "create sequence looks",
        (
            "create function second_look() returns trigger language plpgsql as $$ begin "
            "if nextval('public.looks') > 1 then raise 'the disk is gone'; end if; return null; end $$"
        ),
        "create trigger looks before delete on fastq.job_archive for each statement execute function second_look()",
    ):
        execute(database, statement)

    done = fastq("jobs", "delete", "77", "1", FASTQ_DATABASE_URL=database)

    assert (done.stdout, done.returncode) == ("", 3)
    assert "fastq: the database refused: the disk is gone" in done.stderr
    assert execute(database, "select count(*) from fastq.job") == [(1,)]
    assert execute(database, "select count(*) from fastq.audit") == [(0,)]


def test_unique_lists_the_keys_that_are_held_and_gives_one_up(on_database, database):
    with Client(database) as client:
        first, second = client.enqueue_many([CountArgs(1), CountArgs(2)], unique=Unique("number", within=3600))
    rows = json.loads(on_database("unique", "list", "--json"))
    key = rows[0]["key"]

    assert [(row["job_id"], row["state"], row["kind"], row["until"]) for row in rows] == [
        (first, "available", "count", "time"),
        (second, "available", "count", "time"),
    ]
    assert key[:12] in on_database("unique", "list")
    assert f"{key[:12]}, until time: held" in on_database("jobs", "show", first)
    assert on_database("unique", "release", key[:12]) == f"key {key[:12]} is given up; job {first} held it\n"
    assert f"{key[:12]}, until time: given up" in on_database("jobs", "show", first)
    assert "no key that begins with" in on_database("unique", "release", key[:12], code=1)
    assert "hexadecimal digits" in on_database("unique", "release", "nine", code=2)


def test_a_job_whose_key_another_one_holds_is_not_retried(on_database, database):
    with Client(database) as client:
        first = client.enqueue(CountArgs(1), unique=Unique())
        assert client.cancel(first)
        second = client.enqueue(CountArgs(1), unique=Unique())

    assert f"job {first} is unique, and job {second} holds its key" in on_database("jobs", "retry", first, code=1)
    assert f"held by job {second}" in on_database("jobs", "show", first)
