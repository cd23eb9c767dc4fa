"""Which database and schema `Client()` finds in the programs that a command starts."""

import pytest

from fastq import Client, Kind
from tests.cli.conftest import command
from tests.cli.programs import started
from tests.helpers import execute, wait_for

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = """
import subprocess
import sys
from dataclasses import dataclass

from fastq import Args, Client, Config, Job, Lease, Registry, Worker

registry = Registry()
client = Client()  # as a module of an application makes it
lease = Lease("nightly")


@dataclass
class NoteArgs(Args, kind="note"):
    text: str


@dataclass
class RelayArgs(Args, kind="relay"):
    pass


@registry.register
class NoteWorker(Worker[NoteArgs]):
    def work(self, job: Job[NoteArgs]) -> str:
        return job.args.text


@registry.register
class RelayWorker(Worker[RelayArgs]):
    def work(self, job: Job[RelayArgs]) -> None:
        client.enqueue(NoteArgs("the worker's client"))
        program = "import app; app.client.enqueue(app.NoteArgs('a program that the job starts'))"
        subprocess.run([sys.executable, "-c", program], check=True)
        with lease:
            client.enqueue(NoteArgs(f"a lease of {Config.load().max_args_bytes} bytes"))
"""

NOTES = ["a lease of 5000 bytes", "a program that the job starts", "the worker's client"]


@pytest.fixture
def folder(tmp_path):
    """Give a folder with an application that has a client of its own."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize("name", ["run", "dev"])
def test_a_client_in_a_worker_and_in_what_its_jobs_start_uses_the_database_and_schema_of_the_command(
    name, fastq, database, folder
):
    where = ("--database", database, "--schema", "other")
    assert fastq("migrate", *where).returncode == 0
    done = fastq("enqueue", "relay", "{}", "--app", "app:registry", *where)
    assert done.returncode == 0, done.stderr

    with started(folder, *command(name, "app:registry", *where, "--procs", 1, "--max-args-bytes", 5000)) as program:
        found = "select output from other.job_archive where kind = 'note'"
        wait_for(lambda: sorted(text for (text,) in execute(database, found)) == NOTES, 30, program.said)
        assert program.stop() == 0

    assert execute(database, "select count(*) from fastq.job") == [(0,)]
    assert execute(database, "select count(*) from fastq.job_archive") == [(0,)]


def test_a_client_in_a_worker_finds_an_embedded_database_that_the_command_has_made(project):
    (project / "app.py").write_text(APP)

    with started(project, *command("run", "app:registry", "--procs", 1)) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        (url,) = (line.split("'")[1] for line in program.said.splitlines() if "psql" in line)
        with Client(url) as client:
            client.enqueue({}, kind=Kind("relay", dict))
        found = "select output from fastq.job_archive where kind = 'note'"
        wait_for(lambda: len(execute(url, found)) == len(NOTES), 30, program.said)
        assert program.stop() == 0
