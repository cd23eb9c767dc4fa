"""`fastq export`, `fastq import` and `fastq jobs tail` in a shell: files, pipes, exit codes, and an import that is killed."""

import json
import signal

import pytest

from fastq import Client, Kind
from tests.cli.conftest import command
from tests.cli.programs import started
from tests.helpers import create_database, drop_database

pytestmark = pytest.mark.further
NOTE = Kind("note", dict)


@pytest.fixture
def other(server, migrated_template):
    """Give the URL of another database."""
    name = f"{migrated_template}_imported"
    yield create_database(server, name, migrated_template)
    drop_database(server, name)


@pytest.fixture
def notes(database):
    """Enqueue three notes, of which one has args that no worker takes."""
    with Client(database) as client:
        client.enqueue_many([{"text": "a"}, {"text": "b"}, {"txt": 1}], kind=NOTE)


def test_jobs_go_from_one_database_to_another_once(fastq, folder, on_database, notes, other):
    assert on_database("export", "kind:note", "--output", "notes.jsonl") == ""
    assert len((folder / "notes.jsonl").read_text().splitlines()) == 5
    assert "is there already: --force" in on_database("export", "--output", "notes.jsonl", code=2)
    on_database("export", "kind:note", "--output", "notes.jsonl", "--force")
    words = ("import", "notes.jsonl", "--app", "app:registry")

    dry = fastq(*words, "--dry-run", FASTQ_DATABASE_URL=other)
    first = fastq(*words, "--map", "ids.tsv", FASTQ_DATABASE_URL=other)
    second = fastq(*words, "--json", FASTQ_DATABASE_URL=other)

    assert (dry.returncode, dry.stdout) == (1, "2 jobs would be imported\n")
    assert "line 4: " in dry.stderr
    assert "text" in dry.stderr
    assert (first.returncode, first.stdout) == (1, "2 jobs were imported\n")
    assert (folder / "ids.tsv").read_text() == "1\t1\n2\t2\n"
    told = json.loads(second.stdout)
    assert (told["jobs"], told["before"], told["wrong"]) == (0, 2, 1)
    assert [line for line, _ in told["faults"]] == [4]


def test_an_export_goes_through_a_pipe_into_an_import(fastq, on_database, notes, other):
    text = on_database("export", "args.text:b")

    done = fastq("import", "-", "--raw", stdin=text, FASTQ_DATABASE_URL=other)
    listed = fastq("jobs", "list", "--json", FASTQ_DATABASE_URL=other)

    assert (done.returncode, done.stdout, done.stderr) == (0, "1 job was imported\n", "")
    assert [job["kind"] for job in json.loads(listed.stdout)] == ["note"]


@pytest.mark.parametrize("words", [("--raw", "--app", "app:registry"), ()])
def test_an_import_says_by_what_the_args_are_to_be_checked(on_database, words):
    assert "expected --app TARGET" in on_database("import", "-", *words, code=2)


def test_a_file_that_is_none_and_one_that_was_cut_are_told(on_database, notes):
    head, *jobs, _ = on_database("export").splitlines(keepends=True)

    assert "fastq: line 1: expected a job" in on_database("import", "-", "--raw", stdin="no\n", code=2)
    assert "No such file" in on_database("import", "none.jsonl", "--raw", code=1)
    assert on_database("import", "-", "--raw", stdin=head + jobs[0]) == "1 job was imported\n"


def test_an_import_that_is_killed_leaves_whole_batches_and_goes_on(fastq, folder, other):
    lines = ['{"fastq_export":1,"source":"big"}', *(f'{{"id":{n},"kind":"note","args":{{}}}}' for n in range(20_000))]
    (folder / "big.jsonl").write_text("\n".join(lines) + "\n")
    words = command("import", "big.jsonl", "--raw", "--map", "ids.tsv")

    with started(folder, *words, FASTQ_DATABASE_URL=other) as program, Client(other) as client:
        while not client.jobs.count().jobs and program.process.poll() is None:
            pass
        program.stop(signal.SIGKILL)
        some = client.jobs.count("id:1..100000").jobs
        told = json.loads(fastq("import", "big.jsonl", "--raw", "--json", FASTQ_DATABASE_URL=other).stdout)

    assert told["before"] % 500 == 0
    assert told["jobs"] + told["before"] == 20_000
    assert told["before"] >= min(some, 500)


def test_a_tail_shows_jobs_that_fit_as_they_come_and_as_they_end(folder, database, notes):
    words = command("jobs", "tail", "kind:note", "-args.text:b", "--lines", "1")

    with started(folder, *words, FASTQ_DATABASE_URL=database) as program, Client(database) as client:
        program.wait_until_it_says("enqueued  3 note")
        job = client.enqueue({"text": "new"}, kind=NOTE, tags=["red"])
        client.enqueue({"text": "b"}, kind=NOTE)
        program.wait_until_it_says(f"enqueued  {job} note default red")
        client.cancel(job)
        program.wait_until_it_says(f"cancelled {job} note")
        code = program.stop(signal.SIGINT)

    assert code == 130
    assert program.said.count("enqueued") == 2
    assert program.said.count("cancelled") == 1


def test_a_tail_takes_no_words_that_say_where_it_begins(on_database):
    assert "expected no id and no ended-since" in on_database("jobs", "tail", "id:>7", code=2)
