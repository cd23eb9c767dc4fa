"""`fastq dev`: what becomes of running jobs when the code changes, and of a database that is not its own."""

import signal

import pytest

from tests.cli.conftest import APP, command
from tests.cli.programs import started
from tests.helpers import execute, wait_for

pytestmark = [pytest.mark.process, pytest.mark.further]

SLEEPS = APP.replace("print(f", "import time; print('SLEEPS', flush=True); time.sleep(60); print(f")


@pytest.mark.parametrize(("given", "timeout"), [({}, 2), ({"FASTQ_SHUTDOWN_TIMEOUT": "0.5"}, 0.5)])
def test_a_change_of_the_code_waits_a_moment_for_running_jobs_and_hands_them_back(on_database, database, folder, given, timeout):
    (folder / "app.py").write_text(SLEEPS)
    on_database("enqueue", "note", '{"text": "hello"}')

    with started(folder, *command("dev", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database, **given) as program:
        program.wait_until_it_says("SLEEPS")
        (folder / "app.py").write_text(APP)
        program.wait_until_it_says("NOTE hello")
        wait_for(lambda: execute(database, "select attempt from fastq.job_archive") == [(1,)])
        assert program.stop() == 0

    assert f'supervisor.stops executing=1 timeout={timeout} hint="a second signal (Ctrl-C) ends them at once"' in program.said


def test_two_signals_that_come_at_once_are_two(on_database, database, folder):
    (folder / "app.py").write_text(SLEEPS)
    on_database("enqueue", "note", '{"text": "hello"}')

    with started(
        folder, *command("dev", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database, FASTQ_SHUTDOWN_TIMEOUT="60"
    ) as program:
        program.wait_until_it_says("SLEEPS")
        program.process.send_signal(signal.SIGINT)
        program.stop(signal.SIGTERM)

    assert "supervisor.kills" in program.said
    assert execute(database, "select state::text from fastq.job") == [("available",)]


def test_dev_changes_no_database_of_the_users_own_unless_it_is_told_to(fastq, folder, empty_database):
    refused = fastq("dev", "app:registry", FASTQ_DATABASE_URL=empty_database)

    assert refused.returncode == 3
    assert "the schema 'fastq' lacks 0001_initial, " in refused.stderr
    assert "run fastq migrate, or fastq dev with --migrate" in refused.stderr
    assert execute(empty_database, "select 1 from pg_namespace where nspname = 'fastq'") == []

    words = command("dev", "app:registry", "--procs", 1, "--migrate")
    with started(folder, *words, FASTQ_DATABASE_URL=empty_database) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        assert program.stop() == 0

    assert "migrated: 0001_initial" in program.said
