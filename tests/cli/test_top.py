"""`fastq top` with real workers and in a real pseudo-terminal: views, keys, confirmed changes, a connection that is cut."""

import base64
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import command, environment
from tests.cli.programs import started
from tests.cli.terminals import terminal
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

pytestmark = pytest.mark.further

APP = """
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Job, Registry, Secret, Worker

registry = Registry()

@dataclass
class FailArgs(Args, kind="fails", queue="mails", max_attempts=1):
    to: int

@dataclass
class LongArgs(Args, kind="long", queue="reports"):
    month: str
    card: Secret[str]

@registry.register
class FailWorker(Worker[FailArgs]):
    def work(self, job: Job[FailArgs]) -> None:
        raise ValueError(f"no mailbox {job.args.to}")

@registry.register
class LongWorker(Worker[LongArgs]):
    def work(self, job: Job[LongArgs]) -> None:
        job.progress(0.5, "page 3 of 6")
        job.step("begin", str, 1)
        while not Path("go").exists():
            time.sleep(0.05)
"""
ENQUEUE = """
from fastq import Client, Secret
from worked import FailArgs, LongArgs

with Client() as client:
    client.enqueue(LongArgs("2026-11", Secret("4111-2222")))
    client.enqueue_many([FailArgs(1), FailArgs(2)])
"""
KEY = f"k:{base64.b64encode(bytes(32)).decode()}"
CARD = "4111-2222"
ENTER, ESC, UP, DOWN = "\r", "\x1b", "\x1b[A", "\x1b[B"


@pytest.fixture
def worked(folder, database):
    """Give the environment of a host that works: one job runs, two were discarded, one waits in a queue that nobody works."""
    (folder / "worked.py").write_text(APP)
    variables = {"FASTQ_DATABASE_URL": database, "FASTQ_ARGS_KEYS": KEY}
    ours = environment(**variables)
    subprocess.run([sys.executable, "-c", ENQUEUE], cwd=folder, env=ours, check=True, timeout=50)
    execute(database, "insert into fastq.job (kind, queue) select 'other', 'nobody' from generate_series(1, 3)")
    run = command("run", "worked:registry", "--procs", "1", "--queue", "mails", "--queue", "reports")
    with started(folder, *run, **variables):
        states = "select count(*) from fastq.job_archive where state = 'discarded'"
        wait_for(lambda: execute(database, states) == [(2,)], 30, "two discarded jobs")
        wait_for(lambda: execute(database, "select count(*) from fastq.job_step") == [(1,)], 30, "a step")
        wait_for(lambda: execute(database, "select count(*) from fastq.job_progress") == [(1,)], 30, "a note of progress")
        wait_for(lambda: execute(database, "select count(*) from fastq.stat where outcome = 'discarded'") != [(0,)], 30, "counts")
        yield variables
        (folder / "go").touch()


@pytest.fixture
def filled(folder, database):
    """Give the environment of a database with jobs of two kinds, which nobody works."""
    execute(database, "insert into fastq.job (kind, queue) select 'mail', 'mails' from generate_series(1, 40)")
    execute(database, "insert into fastq.job (kind, queue) select 'report', 'reports' from generate_series(1, 2)")
    return {"FASTQ_DATABASE_URL": database}


def states(database):
    return dict(execute(database, "select state::text, count(*) from fastq.job group by 1"))


@pytest.mark.process
@pytest.mark.further
def test_once_prints_each_view_of_hosts_that_work(fastq, worked):
    def once(*words):
        told = fastq("top", "--once", *words, **worked)
        assert told.returncode == 0, told.stderr
        return told.stdout

    queues = once()
    assert "1 process on 1 host" in queues
    assert "1 running" in queues
    assert "! no living process works queue 'nobody', which has 3 jobs" in queues
    mails = next(line for line in queues.splitlines() if line.startswith("  mails"))
    assert mails.rstrip().endswith("█"), "the failures of this minute, or of the last one"
    assert "\x1b" not in queues
    assert "50% page 3 of 6" in once("--view", "running")
    assert "ValueError: no mailbox 1" in once("--view", "jobs", "--filter", "state:discarded")
    assert "no mailbox 1" not in once("--view", "jobs", "--filter", "state:running")
    assert "ValueError: no mailbox <n>" in once("--view", "failures")
    assert "alive" in once("--view", "processes")

    told = json.loads(once("--json"))
    assert {row["name"]: (row["state"], row["running"], row["processes"]) for row in told["queues"]} == {
        "mails": ("open", 0, 1),
        "nobody": ("unworked", 0, 0),
        "reports": ("open", 1, 1),
    }
    mails = told["queues"][0]
    assert sum(mails["failed_by_minute"]) == 2
    assert [(group["kind"], group["jobs"]) for group in told["failures"]["groups"]] == [("fails", 2)]
    assert [(row["kind"], row["fraction"]) for row in told["running"]] == [("long", 0.5)]
    assert [row["lives"] for row in told["processes"]] == [True]
    assert len(told["jobs"]) == 6
    narrowed = json.loads(once("--json", "--filter", "queue:reports"))
    assert [row["name"] for row in narrowed["queues"]] == ["reports"]
    assert narrowed["failures"]["groups"] == []


@pytest.mark.process
@pytest.mark.further
def test_a_job_is_shown_with_hidden_values_hidden_and_retried_after_a_confirmation(folder, worked, database):
    with terminal(folder, *command("top", "--operate"), size=(100, 44), **worked) as top:
        top.wait_until_it_shows("mails", "1 running", "! no living process works queue 'nobody'")
        top.press("2")
        top.wait_until_it_shows("50% page 3 of 6")
        top.press(ENTER)
        top.wait_until_it_shows('"card":"•••"', "50%, page 3 of 6", "steps", "step begin")
        assert CARD not in top.written
        top.press(ESC, "4")
        top.wait_until_it_shows("ValueError: no mailbox <n>")
        top.press(ENTER)
        top.wait_until_it_shows("raise ValueError", "ValueError: no mailbox ")
        newest = int(re.search(r"^id +(\d+)", top.screen, re.MULTILINE)[1])
        top.press("r")
        top.wait_until_it_shows(f"retry job {newest} (fails)?")
        top.press("n")
        top.wait_until_it_shows("nothing was done")
        assert execute(database, "select attempt from fastq.job_archive where id = %s", newest) == [(1,)]
        top.press("r", "y")
        top.wait_until_it_shows(f"job {newest} available")
        top.wait_until_it_shows("attempt 2 of 2")
        top.press("2")
        top.wait_until_it_shows("50% page 3 of 6")
        top.press("c", "y")
        top.wait_until_it_shows("job 1 is running: asked to end")
        top.press("q")
        assert top.process.wait(30) == 0


@pytest.mark.process
def test_keys_look_filter_and_quit_on_a_terminal_of_80_columns(folder, filled):
    with terminal(folder, *command("top"), **filled) as top:
        top.wait_until_it_shows("> mails", "reports", "q quit", "read-only")
        assert top.alternate
        assert max(map(len, top.rows)) <= 80
        top.press(DOWN)
        top.wait_until_it_shows("> reports")
        top.press("3")
        top.wait_until_it_shows("> 42  available  report", "40  available  mail")
        top.press("/", "kind:report state:available", ENTER)
        top.wait_until(lambda: "mail " not in top.screen and "> 42" in top.screen, "only reports")
        top.press("p")
        top.wait_until_it_shows("fastq top --operate also retries")
        top.press(ENTER)
        top.wait_until_it_shows("job 42 waits because no living process works queue 'reports'")
        top.press("?")
        top.wait_until_it_shows("choose a row")
        top.press("?", ESC, ESC)
        top.wait_until_it_shows("40  available  mail")
        top.press("\x1b[F")
        top.wait_until(lambda: "> 42" not in top.screen and "> " in top.screen, "the last row")
        before = top.mode()
        top.press("q")
        assert top.process.wait(30) == 0
    assert not top.alternate
    assert before[3] != 0


@pytest.mark.process
@pytest.mark.further
def test_what_was_confirmed_is_done_and_nothing_else(folder, filled, database):
    with terminal(folder, *command("top", "--operate", "--view", "jobs"), **filled) as top:
        top.wait_until_it_shows("> 42")
        top.press("c")
        top.wait_until_it_shows("cancel job 42 (report)?")
        top.press(ENTER)
        top.wait_until_it_shows("nothing was done")
        assert states(database) == {"available": 42}
        top.press("c", "y")
        top.wait_until_it_shows("job 42 cancelled", "> 42  cancelled")
        assert states(database) == {"available": 41}
        top.press("1")
        top.wait_until_it_shows("> mails")
        top.press("p", "y")
        top.wait_until_it_shows("queue 'mails' is paused")
        assert execute(database, "select name from fastq.queue where paused_at is not null") == [("mails",)]
        top.press("u", "y")
        top.wait_until_it_shows("queue 'mails' is resumed")
        top.press("\x03")
        assert top.process.wait(30) == 0


@pytest.mark.process
@pytest.mark.further
def test_a_terminal_that_is_resized_is_painted_anew(folder, filled):
    with terminal(folder, *command("top"), size=(80, 24), **filled) as top:
        top.wait_until_it_shows("> mails", "read-only")
        top.resize(120, 40)
        top.wait_until(lambda: "read-only" in top.rows[39] and len(top.rows[39]) == 120, "the keys in line 40")
        assert top.screen.count("> mails") == 1
        top.resize(60, 12)
        top.wait_until(lambda: "read-only" in top.rows[11], "the keys in line 12")
        assert max(map(len, top.rows)) <= 60
        top.resize(30, 5)
        top.wait_until_it_shows("fastq top takes 40 x 10")
        top.press("q")
        assert top.process.wait(30) == 0


@pytest.mark.process
@pytest.mark.further
def test_while_no_answer_comes_the_keys_work_and_a_banner_tells_and_goes(folder, filled):
    with Proxy(filled["FASTQ_DATABASE_URL"]) as wire, terminal(folder, *command("top"), FASTQ_DATABASE_URL=wire.url) as top:
        top.wait_until_it_shows("> mails")
        wire.black_hole()
        top.wait_until_it_shows("no database for", "trying again")
        assert "> mails" in top.screen, "the last figures stay"
        top.press("?")
        top.wait_until_it_shows("choose a row")
        top.press("?", DOWN)
        top.wait_until_it_shows("> reports")
        wire.restore()
        wire.sever()
        top.wait_until_it_shows("the database answers again")
        assert "no database for" not in top.screen
        wire.black_hole()
        top.press("q")
        assert top.process.wait(30) == 0


@pytest.mark.process
@pytest.mark.further
def test_a_database_that_is_slow_is_asked_less_often_and_keys_do_not_wait_for_it(folder, filled):
    with terminal(folder, *command("top"), **filled) as top, psycopg.connect(filled["FASTQ_DATABASE_URL"]) as lock:
        top.wait_until_it_shows("> mails")
        lock.execute("lock table fastq.queue in access exclusive mode")
        top.wait_until_it_shows("a look took longer than 3 s", "slow: every 4 s")
        top.press(DOWN)
        top.wait_until_it_shows("> reports")
        lock.rollback()
        top.wait_until(lambda: "longer than" not in top.screen, "the banner to go")
        top.press("q")
        assert top.process.wait(30) == 0


@pytest.mark.process
@pytest.mark.further
def test_a_change_that_cannot_be_made_says_so(folder, filled, database):
    words = command("top", "--operate", "--view", "jobs")
    with Proxy(filled["FASTQ_DATABASE_URL"]) as wire, terminal(folder, *words, FASTQ_DATABASE_URL=wire.url) as top:
        top.wait_until_it_shows("> 42")
        wire.close()
        top.wait_until_it_shows("no database for")
        top.press("c", "y")
        top.wait_until_it_shows("nothing was done: ")
        top.press("q")
        assert top.process.wait(30) == 0
    assert states(database) == {"available": 42}


@pytest.mark.process
@pytest.mark.further
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
def test_colours_are_there_unless_they_are_not_wanted(folder, filled, variables):
    with terminal(folder, *command("top"), **filled, **variables) as top:
        top.wait_until_it_shows("! nobody leads")
        assert ("\x1b[31m" in top.written) == (not variables)
        top.process.send_signal(signal.SIGTERM)
        assert top.process.wait(30) == 128 + signal.SIGTERM
        wait_for(lambda: not top.alternate, what="the terminal to be restored")
        assert top.mode()[3] != 0


def test_where_there_is_no_terminal_one_view_is_printed(fastq, filled):
    told = fastq("top", "--view", "jobs", "--filter", "kind:report", **filled)

    assert told.returncode == 0, told.stderr
    assert told.stdout.count("available") == 3, "two jobs, and the total"
    assert "\x1b" not in told.stdout


def test_mistakes_are_told(fastq, filled):
    for words, text in (
        (("--json",), "--json goes with --once"),
        (("--filter", "colour:red"), "expected one of state, kind"),
        (("--view", "moon"), "invalid choice"),
    ):
        told = fastq("top", *words, **filled)
        assert (told.returncode, text in told.stderr) == (2, True), told.stderr


def test_a_database_that_is_not_there_is_told_before_the_screen_opens(folder):
    with terminal(folder, *command("top"), FASTQ_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none") as top:
        assert top.process.wait(30) == 3
        top.wait_until(lambda: "refused" in top.written, "the error")
    assert "1049h" not in top.written


@pytest.mark.process
@pytest.mark.slow
def test_an_open_top_costs_little(folder, filled):
    with terminal(folder, *command("top", "--view", "jobs"), size=(140, 40), **filled) as top:
        top.wait_until_it_shows("> 42")
        stat = Path(f"/proc/{top.process.pid}/stat")

        def ticks():
            return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13]))

        before, began = ticks(), time.monotonic()
        time.sleep(10)
        assert (ticks() - before) / 100 <= 0.02 * (time.monotonic() - began), "twice the 1 % that is promised"
