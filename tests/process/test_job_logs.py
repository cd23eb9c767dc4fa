"""Job logs in a running cluster: seen live, told apart, kept when processes die and when Postgres restarts."""

import os
import signal
import subprocess
import sys
import threading

import psycopg
import pytest

from fastq import Client, State
from fastq.postgres import embedded
from tests.helpers import execute, wait_for
from tests.process.conftest import Jobs, supervising
from tests.process.test_outage import crash, own_server  # noqa: F401 - a fixture
from tests.process.told import AwaitingChatArgs, ChatArgs, QuietArgs, RetriedArgs, SnoozedArgs

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.told:registry"


@pytest.fixture
def gate(tmp_path):
    """Give the path of a file for which jobs wait."""
    return tmp_path / "gate"


@pytest.fixture
def running(supervise):
    return supervise(APP, queues="default=4")


class Follower(threading.Thread):
    """Follows the log of a job in a program of its own kind, and keeps the texts."""

    def __init__(self, url, job_id):
        super().__init__(daemon=True)
        self._client, self._job_id = Client(url), job_id
        self.texts = []
        self.start()

    def run(self):
        with self._client:
            for line in self._client.follow_logs(self._job_id):
                self.texts.append(line.text)


def texts(client, job):
    return [line.text for line in client.logs(job)]


def test_a_log_is_followed_while_the_job_runs_and_ends_with_the_job(running, database, gate):
    with Client(database) as client:
        job = client.enqueue(ChatArgs(str(gate), lines=3))
        follower = Follower(database, job)
        wait_for(lambda: len(follower.texts) == 3, what="the prints, live")
        assert client.get(job).state is State.RUNNING

        gate.touch()

        wait_for(lambda: not follower.is_alive(), what="the end of the follower")
        expected = [*(f"print {number} of {job}" for number in range(3)), f"record of {job}"]
        assert follower.texts == texts(client, job) == expected
        assert [(line.level, line.source) for line in client.logs(job)][-2:] == [("", "stdout"), ("warning", "shop")]
    wait_for(lambda: f"print 2 of {job}\n" in running.said, what="the same words where they went before")


def test_two_jobs_on_one_event_loop_have_logs_of_their_own(running, jobs, database, gate):
    with Client(database) as client:
        ids = client.enqueue_many([AwaitingChatArgs(str(gate))] * 2)
        jobs.wait_until_told("printed", times=2)
        gate.touch()
        client.wait_many(ids, timeout=20)

        for job in ids:
            expected = [f"begin {job} ... end {job}", f"record of {job}", f"thread of {job}"]
            wait_for(lambda job=job, expected=expected: texts(client, job) == expected, what="the log")


def test_what_a_process_had_written_before_it_was_killed_stays_and_the_next_attempt_follows(running, jobs, database, gate):
    with Client(database) as client:
        job = client.enqueue(ChatArgs(str(gate)), max_attempts=3)
        follower = Follower(database, job)
        [line] = jobs.wait_until_told("printed")
        wait_for(lambda: texts(client, job))

        os.kill(line.pid, signal.SIGKILL)
        jobs.wait_until_told("printed", times=2)
        gate.touch()

        wait_for(lambda: not follower.is_alive(), what="the end of the follower")
        told = [(line.attempt, line.text) for line in client.logs(job)]
        assert told == [(1, f"print 0 of {job}"), (2, f"print 0 of {job}"), (2, f"record of {job}")]
        assert follower.texts == [text for _, text in told]


def test_a_log_is_whole_after_a_crash_of_postgres_and_a_program_that_follows_it_goes_on(own_server, tmp_path, gate):  # noqa: F811 - the fixture
    with supervising(Jobs(own_server.url, tmp_path), tmp_path) as start:
        running = start(APP, queues="default=4")
        with Client(own_server.url) as client:
            job = client.enqueue(ChatArgs(str(gate)))
        follower = Follower(own_server.url, job)
        wait_for(lambda: follower.texts)

        crash(own_server)
        gate.touch()
        wait_for(lambda: "logs.waits" in running.said, what="the event")
        with embedded.start(own_server.folder):
            wait_for(lambda: not follower.is_alive(), 40.0, what="the end of the follower")
            assert follower.texts == [f"print 0 of {job}", f"record of {job}"]
            running.stop()


def test_attempts_that_fail_and_those_that_do_not_count_are_all_kept(running, database, tmp_path):
    with Client(database) as client:
        failed, snoozed = client.enqueue(RetriedArgs()), client.enqueue(SnoozedArgs(str(tmp_path / "note")))
        client.wait_many([failed, snoozed], timeout=20)

        wait_for(lambda: texts(client, snoozed) == ["put off", "done"])
        wait_for(lambda: [(line.attempt, line.text) for line in client.logs(failed)] == [(1, "attempt 1"), (2, "attempt 2")])
        assert "keeping.py" not in client.get(failed).errors[0]["trace"], "a traceback begins in the code of the user's"


def test_a_kind_that_says_so_keeps_no_log_and_a_process_of_such_jobs_has_no_session_for_it(running, database):
    sessions = "select count(*) from pg_stat_activity where application_name = 'fastq logs' and datname = current_database()"
    with Client(database) as client, psycopg.connect(database, autocommit=True) as connection:
        job = client.enqueue(QuietArgs())
        client.wait(job, timeout=20)
        wait_for(lambda: "not kept either" in running.said)

        assert connection.execute(sessions).fetchone() == (0,)
        client.wait(client.enqueue(RetriedArgs()), timeout=20)
        wait_for(lambda: connection.execute(sessions).fetchone() == (1,))
        assert texts(client, job) == []


def test_a_stop_writes_the_last_words_of_the_jobs(running, jobs, database, gate):
    with Client(database) as client:
        job = client.enqueue(ChatArgs(str(gate)))
        jobs.wait_until_told("printed")
        gate.touch()

        running.stop()

        assert texts(client, job) == [f"print 0 of {job}", f"record of {job}"]


def test_the_command_shows_a_log_and_follows_it(running, jobs, database, gate):
    def command(*words):
        environment = {**os.environ, "FASTQ_DATABASE_URL": database}
        return subprocess.Popen(
            [sys.executable, "-m", "fastq", "logs", *words], env=environment, stdout=subprocess.PIPE, text=True
        )

    with Client(database) as client:
        job = client.enqueue(ChatArgs(str(gate)))
        with command(str(job), "-f") as following:
            assert following.stdout.readline().endswith(f"stdout : print 0 of {job}\n")
            gate.touch()
            rest = following.stdout.read()
        assert following.returncode == 0
        assert rest.endswith(f"warning shop: record of {job}\n")
        with command(str(job), "--json") as showing:
            assert f'"text":"record of {job}"' in showing.stdout.read()
    assert execute(database, "select count(distinct claim) from fastq.job_log") == [(1,)]
