"""`fastq run`, `fastq dev` and the quickstart, with real processes, signals and databases."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import APP, ROOT, command, environment
from tests.cli.programs import IN_THE_BACKGROUND, started
from tests.helpers import execute, process_exists, wait_for, wait_until_gone

pytestmark = [pytest.mark.process, pytest.mark.further]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_says_what_it_found_works_a_job_and_ends_at_a_signal(on_database, database, folder, number):
    on_database("enqueue", "note", '{"text": "hello"}')
    words = command("run", "app:registry", "--procs", 1, "--queue", "default=2", "--queue", "slow=1")

    with started(folder, *words, FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("NOTE hello")
        assert program.stop(number) == 0

    lines = [line.split() for line in program.said.splitlines()]
    assert ["app", "app:registry,", "2", "kinds"] in lines
    assert ["processes", "1"] in lines
    assert ["queues", "default", "x2,", "slow", "x1", "in", "each", "process"] in lines
    assert ["jobs", "1", "available"] in lines
    assert ["note", "NoteWorker", "default", "60", "s", "7", "sync"] in lines
    assert ["mail", "MailWorker", "emails", "60", "s", "25", "async"] in lines
    assert "warning: queue 'emails' (mail) is not worked here: add --queue emails" in program.said
    assert execute(database, "select state::text, output from fastq.job_archive") == [("completed", "hello")]


def test_run_refuses_a_worker_of_a_mode_that_there_is_not(on_database, folder):
    (folder / "app.py").write_text(APP.replace("    def work(", '    mode = "fibres"\n\n    def work(', 1))

    told = on_database("run", "app:registry", code=2)

    assert "NoteWorker.mode: expected one of 'threads', 'loop', 'isolated', 'bundles', got 'fibres'; leave it out" in told


def test_run_tells_of_a_paused_queue_and_hides_the_password(on_database, database, folder):
    on_database("queues", "pause", "default")

    with started(
        folder, *command("run", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=f"{database}&password=hunter2"
    ) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        assert program.stop() == 0

    assert "warning: queue 'default' is paused: fastq queues resume default" in program.said
    assert "hunter2" not in program.said


def test_run_tells_of_a_queue_whose_jobs_nobody_works(on_database, database, folder):
    on_database("enqueue", "note", '{"text": "waits"}', "--queue", "misspelt", "--delay", 60)

    with started(folder, *command("run", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        assert program.stop() == 0

    told = "warning: queue 'misspelt' has jobs, and no process works it: add --queue default --queue misspelt"
    assert told in program.said


def test_run_warns_of_a_queue_that_living_processes_with_other_kinds_work_too(on_database, database, folder):
    known = """insert into fastq.process (id, host, pid, supervisor, queues, kinds, expires_at)
        values (%s, %s, 1, 'x:1:y', %s, %s, now() + make_interval(secs => %s))"""
    execute(database, known, 1, "berta", "default,other", ["sort", "mail"], 60)
    execute(database, known, 2, "carl", "default", ["mail", "note"], 60)  # they know the same
    execute(database, known, 3, "dora", "default", ["old"], -1)
    execute(database, known, 4, "emil", "other", ["old"], 60)
    execute(database, known, 5, "fritz", "default", [], 60)
    execute(database, known, 6, "gerda", "default", None, 60)

    with started(folder, *command("run", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        wait_for(lambda: execute(database, "select kinds from fastq.process where id > 6") != [])
        assert execute(database, "select distinct kinds from fastq.process where id > 6") == [(["mail", "note"],)]
        assert program.stop() == 0

    told = (
        "warning: queue 'default' is shared with processes of other kinds on berta: only they have workers for sort; "
        "not all of them have workers for note; each job that comes to the wrong process waits for a right one: give each "
        "service a queue of its own (while a new version is rolled out, this passes)"
    )
    assert told in program.said
    assert program.said.count("is shared with") == 1


GATED = """
from dataclasses import dataclass

from fastq import Args, Fair, Limit, Ordered, Queue, Registry, Worker

registry = Registry()
calls = Queue("calls", gates=[Limit("calls", at_most=3)])


@dataclass
class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=20), Ordered("stream"), Fair("turns", by="text")]):
    text: str = ""


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job):
        pass
"""


def test_run_warns_of_gates_where_an_operators_number_holds_and_not_the_codes(on_database, database, folder):
    (folder / "app.py").write_text(GATED)
    for name, number in {"mail-api": 5, "stream": 7, "turns": 1000, "calls": 0, "others": 1}.items():
        on_database("gates", "set", name, number)

    with started(folder, *command("run", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        assert program.stop() == 0

    told = (
        "warning: gate '{0}': an operator has set {1}, and the code says {2}: {1} holds; "
        "to have the code's hold: fastq gates remove {0}"
    )
    assert told.format("mail-api", 5, 20) in program.said
    assert told.format("calls", 0, 3) in program.said
    assert program.said.count("an operator has set") == 2


def test_all_that_run_says_is_json_when_asked(database, folder):
    words = command("run", "app:registry", "--procs", 1, "--log-json")

    with started(folder, *words, FASTQ_DATABASE_URL=database, FASTQ_QUEUE="emails") as program:
        program.wait_until_it_says('"event": "lease.acquired"')
        assert program.stop() == 0

    said = [json.loads(line) for line in program.said.splitlines()]
    starts = next(line for line in said if line["event"] == "supervisor.starts")
    assert (starts["app"], starts["kinds"], starts["processes"]) == ("app:registry, 2 kinds", ["mail", "note"], "1")
    assert [line["warning"] for line in said if line["event"] == "supervisor.warns"] == [
        "FASTQ_QUEUE is no setting; did you mean FASTQ_QUEUES?",
        "queue 'emails' (mail) is not worked here: add --queue default --queue emails",
    ]


def test_a_job_of_a_kind_that_nobody_works_tells_why_it_waits(on_database, database, folder):
    on_database("enqueue", "nota", "{}")

    with started(folder, *command("run", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("kind.unknown")
        wait_for(lambda: execute(database, "select state::text from fastq.job") == [("waiting",)])
        assert program.stop() == 0

    why = "no living process of queue 'default' has a worker for kind 'nota'"
    assert f"\nwaits     {why}\n" in on_database("jobs", "show", 1)
    assert why in on_database("jobs", "list", "--state", "waiting")
    assert on_database("queues", "list").splitlines()[1].split() == ["default", "unworked", "0", "0", "0", "0", "1", "0"]


def test_run_without_a_folder_for_temporary_files_says_what_to_set(database, folder):
    without = (
        "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/x']; import sys, fastq.cli; sys.exit(fastq.cli.main())"
    )

    with started(folder, sys.executable, "-c", without, "run", "app:registry", FASTQ_DATABASE_URL=database) as program:
        assert program.process.wait(30) == 2

    assert "the fork server needs a folder for its socket: set TMPDIR to one (No usable temporary directory" in program.said
    assert "Traceback" not in program.said


def fastq(folder, *words):
    """Run a command to its end in a folder, without a database in the environment."""
    done = subprocess.run(command(*words), cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("watcher", ["watchfiles", pytest.param("polling", marks=pytest.mark.slow)])
def test_dev_brings_a_database_works_jobs_and_starts_again_when_the_code_changes(project, watcher):
    words = command("dev", "app:registry", "--procs", 1)
    if watcher == "polling":
        words[1:3] = ["-c", "import sys; sys.modules['watchfiles'] = None; from fastq.cli import main; sys.exit(main())"]

    with started(project, *words) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        fastq(project, "enqueue", "note", '{"text": "one"}')
        program.wait_until_it_says("NOTE one")

        (project / "app.py").write_text("1 / 0\n")
        program.wait_until_it_says("fastq run ended with code 2; it starts again when the code changes")
        (project / "app.py").write_text(APP.replace("NOTE", "CHANGED"))
        program.wait_until_it_says("lease.acquired lease=leader:default", times=2)
        fastq(project, "enqueue", "note", '{"text": "two"}')
        program.wait_until_it_says("CHANGED two")
        (server,) = (int((project / ".fastq/postgres/data/postmaster.pid").read_text().split()[0]),)

        assert program.stop() == 0

    assert "app.py changed: starting again" in program.said
    assert "embedded in .fastq/postgres: for development only" in program.said
    assert "psql 'postgresql://" in program.said
    wait_until_gone([server])
    assert [line.split()[1] for line in fastq(project, "jobs", "list").splitlines()[1:]] == ["completed", "completed"]


def test_dev_passes_a_second_signal_on_and_leaves_no_process_behind(project):
    (project / "app.py").write_text(APP.replace("print(f", "import time; print('SLEEPS', flush=True); time.sleep(60); print(f"))

    with started(project, *IN_THE_BACKGROUND, *command("dev", "app:registry", "--procs", 1)) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        fastq(project, "enqueue", "note", '{"text": ""}')
        program.wait_until_it_says("SLEEPS")
        child = int(Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()[0])
        os.kill(program.process.pid, signal.SIGINT)
        program.wait_until_it_says("supervisor.stops")

        assert program.stop(signal.SIGINT) == 0

    wait_until_gone([child])
    assert fastq(project, "jobs", "list").splitlines()[1].split()[1] == "available"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_dev_takes_everything_with_it_when_its_terminal_closes_or_it_is_killed(project, number):
    (project / "app.py").write_text(APP.replace("print(f", "import time; print('NAPS', flush=True); time.sleep(1); print(f"))

    with started(project, *command("dev", "app:registry", "--procs", 1)) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        fastq(project, "enqueue", "note", '{"text": "last", "times": 1}')
        program.wait_until_it_says("NAPS")
        child = int(Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()[0])
        server = int((project / ".fastq/postgres/data/postmaster.pid").read_text().split()[0])
        os.kill(program.process.pid, number)
        wait_for(lambda: "supervisor.stops" in program.said, what="the stop")

        assert program.stop(number) == (0 if number == signal.SIGHUP else -signal.SIGKILL)

    wait_for(lambda: not process_exists(child) and not process_exists(server), what="the end of the child and of its server")
    assert "NOTE last" in program.said
    assert "supervisor.stopped" in program.said


def test_a_running_job_that_is_cancelled_ends_cancelled(on_database, database, folder):
    slow = "import time; print('SLEEPS', flush=True); [time.sleep(0.01) for _ in range(6000)]; print(f"
    (folder / "app.py").write_text(APP.replace("print(f", slow))
    on_database("enqueue", "note", '{"text": "never"}')

    with started(folder, *command("run", "app:registry", "--procs", 1), FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("SLEEPS")
        assert f"claimed by  {socket.gethostname()} (pid " in on_database("jobs", "show", 1)
        assert [line.split()[-1] for line in on_database("queues", "list").splitlines()[1:]] == ["1"]
        assert on_database("jobs", "cancel", 1) == "job 1 is running: asked to end\n"
        wait_for(lambda: execute(database, "select 1 from fastq.job_archive where state = 'cancelled'"))
        assert program.stop() == 0

    assert "NOTE never" not in program.said


def test_the_quickstart_completes_all_its_jobs(on_database, database, folder):
    url = {"FASTQ_DATABASE_URL": database, "PYTHONPATH": str(ROOT)}
    enqueued = subprocess.run(
        [sys.executable, "-m", "examples.quickstart"],
        cwd=ROOT,
        env=environment(**url),
        capture_output=True,
        text=True,
        check=True,
    )
    assert enqueued.stdout == "enqueued 7 jobs\n"

    with started(folder, *command("run", "examples.quickstart:registry", "--procs", 1, "--app-dir", ROOT), **url) as program:
        wait_for(lambda: execute(database, "select count(*) from fastq.job") == [(0,)], 30)
        assert program.stop() == 0

    assert "kind=flaky attempt=2 max_attempts=5 again_in=2 error=" in program.said
    assert execute(
        database, "select kind, count(*), max(attempt) from fastq.job_archive where state = 'completed' group by 1 order by 1"
    ) == [("flaky", 1, 3), ("greet", 3, 1), ("oven", 1, 1), ("sort", 2, 1)]
    for line in ("sort     ['bear', 'tiger', 'whale']", "greet    hello, Ada", "flaky    attempt 3 went well", "oven     hot"):
        assert line in program.said


LIMITS = """
from app import registry
from fastq.jobs.declaration import Declaration


class Limit(Declaration):
    noun, heading, columns = "limit", "limits", ("limit", "most")

    def __init__(self, name, most):
        self.name, self.most, self.place = name, most, __name__

    def row(self):
        return (self.name, self.most)


registry.declare(Limit("mailer", "30"))
registry.declare(Limit("api", "7"))
"""


def test_run_introduces_what_an_app_declares_of_a_sort_that_it_does_not_know(on_database, database, folder):
    (folder / "limits.py").write_text(LIMITS)

    with started(folder, *command("run", "limits:registry", "--procs", 1), FASTQ_DATABASE_URL=database) as program:
        program.wait_until_it_says("lease.acquired lease=leader:default")
        assert program.stop() == 0

    lines = [line.split() for line in program.said.splitlines()]
    assert ["limits", "mailer,", "api"] in lines
    at = lines.index(["limit", "most"])
    assert lines[at + 1 : at + 3] == [["api", "7"], ["mailer", "30"]]
