"""The pytest plugin in real runs of pytest: its fixtures, with nothing configured, side by side, and with xdist."""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers import execute

ROOT = __file__.rpartition("/tests/")[0]

APP = """
from dataclasses import dataclass
from fastq import Args, AsyncClient, Client, Job, Registry, Worker

registry = Registry()

@dataclass
class MailArgs(Args, kind="mail"):
    to: str

@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> str:
        return f"mail to {job.args.to}"

@dataclass
class PollArgs(Args, kind="poll"):
    url: str

@registry.register
class PollWorker(Worker[PollArgs]):
    async def work(self, job: Job[PollArgs]) -> str:
        return job.args.url

def sign_up(name):
    with Client() as client:
        return client.enqueue(MailArgs(name))
"""

FIXTURE = """
import pytest
from app import registry

@pytest.fixture(scope="session")
def fastq_registry():
    return registry
"""

TESTS = """
import pytest
from app import MailArgs, PollArgs, sign_up

@pytest.mark.parametrize("name", ["ada", "bob", "cyd", "dan"])
def test_a_welcome_is_enqueued_and_sent(fastq_jobs, fastq_client, name):
    fastq_jobs.assert_not_enqueued(MailArgs)
    sign_up(name)  # by a client that reads the environment
    fastq_jobs.assert_enqueued(MailArgs, to=name, count=1)
    fastq_client.enqueue(PollArgs("x"))
    assert [ran.output for ran in fastq_jobs.drain()] == [f"mail to {name}", "x"]
"""

ASYNC = """
import asyncio
import pytest
from app import PollArgs

async def body(client, jobs):
    await client.enqueue(PollArgs("x"))
    await jobs.assert_enqueued(PollArgs, url="x")
    assert [ran.output for ran in await jobs.drain()] == ["x"]
    return asyncio.current_task()

{mark}
async def test_it_awaits(fastq_async_client, fastq_async_jobs):
    assert await body(fastq_async_client, fastq_async_jobs)
"""

UNRAISABLE = "error::pytest.PytestUnraisableExceptionWarning"

pytestmark = [pytest.mark.process, pytest.mark.further]


def write(folder, **files):
    for name, text in files.items():
        (folder / name.replace("_py", ".py").replace("_ini", ".ini")).write_text(text)


def run(folder, server, *options, wanted=0, **more):
    """Run pytest as a person does, in a folder of its own; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FASTQ_", "PYTEST_"))}
    if server is not None:
        environment["FASTQ_TEST_DATABASE_URL"] = server
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options]
    done = subprocess.run(command, cwd=folder, env=environment | more, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == wanted, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path):
    write(tmp_path, app_py=APP, conftest_py=FIXTURE, test_mail_py=TESTS, pytest_ini="[pytest]\npythonpath = .\n")
    return tmp_path


def databases(server):
    return execute(server, "select datname from pg_database where datname ~ '^fastq_test_[0-9]+_[0-9a-f]{8}$'")


def test_a_project_tests_its_jobs_with_nothing_configured_but_its_registry(project, server):
    assert "4 passed" in run(project, server)
    assert databases(server) == []


def test_the_registry_may_be_named_in_the_settings(project, server):
    (project / "conftest.py").unlink()
    write(project, pytest_ini="[pytest]\npythonpath = .\nfastq_app = app:registry\n")

    assert "4 passed" in run(project, server)


def test_without_a_registry_the_error_says_where_to_name_it(project, server):
    (project / "conftest.py").unlink()

    assert "set fastq_app in pytest's settings" in run(project, server, wanted=1)


def test_runs_beside_each_other_and_processes_of_xdist_share_a_server(project, server):
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(run, project, server, "-n", "2"), pool.submit(run, project, server)]

    assert all("4 passed" in each.result() for each in runs)
    assert databases(server) == []


@pytest.fixture
def folder():
    """Give a folder that the server's user may reach, wherever the tests run as root."""
    with tempfile.TemporaryDirectory(prefix=f"fastq-test-{os.getpid()}-") as name:
        made = Path(name)
        made.chmod(0o711)
        yield made


def test_an_embedded_server_is_started_where_none_is_configured(project, folder):
    write(project, pytest_ini=f"[pytest]\npythonpath = .\nfastq_data_dir = {folder}\n")

    assert "4 passed" in run(project, None)
    assert "4 passed" in run(project, None, "-n", "2")
    assert not (folder / "data" / "postmaster.pid").exists()


def test_a_database_of_the_tests_own_is_used_where_a_fixture_gives_one(project, server, database):
    write(
        project,
        conftest_py=FIXTURE + f"\n@pytest.fixture(scope='session')\ndef fastq_database_url():\n    return {database!r}\n",
    )
    assert "4 passed" in run(project, None)
    assert execute(database, "select count(*) from fastq.job_archive") == [(0,)]


def test_a_role_that_may_not_create_databases_is_told_what_to_do(project, server):
    execute(server, "drop role if exists test_of_fastq")
    execute(server, "create role test_of_fastq login")
    try:
        told = run(project, server.replace("//postgres@", "//test_of_fastq@"), wanted=1)
    finally:
        execute(server, "drop role test_of_fastq")
    assert "may not create databases" in told
    assert "fixture fastq_database_url" in told


@pytest.mark.parametrize(("plugin", "mark"), [("anyio", "@pytest.mark.anyio"), ("pytest_asyncio", "@pytest.mark.asyncio")])
def test_a_test_that_awaits_has_the_loop_of_its_own_plugin(project, server, plugin, mark):
    pytest.importorskip(plugin)
    backend = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    write(project, conftest_py=FIXTURE + backend, test_mail_py=ASYNC.replace("{mark}", mark))

    assert "1 passed" in run(project, server, "-W", "error::ResourceWarning", "-W", UNRAISABLE)


def test_nothing_of_fastq_is_imported_in_a_run_that_does_not_ask_for_it(tmp_path):
    write(tmp_path, test_other_py="import sys\n\ndef test_other():\n    assert 'fastq' not in sys.modules\n")

    assert "1 passed" in run(tmp_path, None)


def test_the_plugin_costs_other_runs_a_small_part_of_the_import_of_pytest(tmp_path):
    command = [sys.executable, "-X", "importtime", "-c", "import pytest; import fastq_pytest"]
    times = []
    for _ in range(5):
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stderr
        lines = {name.strip(): int(took) for took, name in re.findall(r"\|\s+(\d+) \| +(\S+)", told)}
        times.append(lines["fastq_pytest"] / lines["pytest"])

    assert min(times) < 0.05
