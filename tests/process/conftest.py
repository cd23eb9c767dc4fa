"""A supervisor as a real program, and what a test can see of it: its output, its processes, its jobs and the database."""

import itertools
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Json

from tests.helpers import Stopwatch, wait_for, wait_until_gone

ROOT = Path(__file__).parent.parent.parent
APP = "tests.process.jobs:registry"
SETTINGS = {  # short times, so that what takes a while in production is over in a test
    "procs": "1",
    "queues": "default=4",
    "timeout_grace": "0.5",
    "process_ttl": "3",
    "beat_interval": "1",
    "lease_ttl": "2",
    "log_level": "debug",
}
LIVING = "select state::text, attempt, max_attempts, crashes, errors, null, scheduled_at from fastq.job where id = %s"
FINISHED = "select state::text, attempt, max_attempts, crashes, errors, output, null from fastq.job_archive where id = %s"
INSERT = """insert into fastq.job (kind, args, queue, priority, max_attempts, state, seq, scheduled_at)
    select %(kind)s, args, %(queue)s, %(priority)s, %(max_attempts)s,
        (case when %(delay)s::float8 is null then 'available' else 'scheduled' end)::fastq.state,
        case when %(delay)s::float8 is null then nextval('fastq.job_seq') end,
        clock_timestamp() + make_interval(secs => %(delay)s::float8)
    from unnest(%(args)s::json[]) with ordinality as given (args, place) order by place
    returning id"""
SESSIONS = """select pid, application_name from pg_stat_activity
    where application_name like 'fastq%' and datname = current_database()"""


@dataclass
class Line:
    """What a job told the witness; `at` is in seconds of the machine's monotonic clock."""

    at: float
    pid: int
    queue: str
    id: int
    attempt: int
    what: str


@dataclass
class Fate:
    """What the database says of a job."""

    state: str
    attempt: int
    max_attempts: int
    crashes: int
    errors: list[dict[str, object]]
    output: object
    scheduled_at: object


class Jobs:
    """Jobs in the database and what they told the witness."""

    def __init__(self, url, folder):
        self.url = url
        self.witness = folder / "witness.txt"
        self.witness.touch()
        self._lines = []  # of the witness, as far as it was read
        self._read = 0
        self.connection = psycopg.connect(url, autocommit=True)

    def execute(self, text, *params):
        """Run a statement; the connection is made anew when a test has ended it."""
        if self.connection.closed:
            self.connection = psycopg.connect(self.url, autocommit=True)
        cursor = self.connection.execute(text, params or None)
        return cursor.fetchall() if cursor.description else []

    def add_all(self, kind, args, *, queue="default", priority=1, max_attempts=25, delay=None, wake=True):
        """Insert jobs of one kind and wake whoever waits for them; return their ids."""
        values = {"kind": kind, "queue": queue, "priority": priority, "max_attempts": max_attempts, "delay": delay}
        with self.connection.transaction():
            rows = self.connection.execute(INSERT, values | {"args": [Json(one) for one in args]}).fetchall()
            if wake:
                self.connection.execute("select pg_notify('fastq', %s)", ["@due" if delay else queue])
        return [id_ for (id_,) in rows]

    def add(self, kind, *, queue="default", priority=1, max_attempts=25, delay=None, wake=True, **args):
        """Insert one job."""
        options = {"queue": queue, "priority": priority, "max_attempts": max_attempts, "delay": delay, "wake": wake}
        return self.add_all(kind, [args], **options)[0]

    def fate(self, id_):
        """Tell what became of a job."""
        for text in (LIVING, FINISHED, LIVING):  # one that moves between the two statements is found by the third
            for row in self.execute(text, id_):
                return Fate(*row[:4], row[4] or [], *row[5:])
        raise AssertionError(f"job {id_} is nowhere")

    def wait_for(self, id_, *states, timeout=10.0):
        """Wait until a job is in one of these states; return what became of it."""
        wait_for(lambda: self.fate(id_).state in states, timeout, f"job {id_} to be {states}, not {self.fate(id_)}")
        return self.fate(id_)

    def wait_until_none_is_left(self, timeout=20.0):
        """Wait until all jobs are finished."""
        wait_for(lambda: self.execute("select count(*) from fastq.job") == [(0,)], timeout, "the last job to end")

    def counts(self):
        """Count the finished jobs by state."""
        return dict(self.execute("select state::text, count(*) from fastq.job_archive group by 1"))

    def told(self, what="", id_=None):
        """Return what the jobs told, in order."""
        with self.witness.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for text in whole.decode().splitlines():
            at, pid, queue, job, attempt, word = text.split(" ", 5)
            self._lines.append(Line(int(at) / 1e9, int(pid), queue, int(job), int(attempt), word))
        found = [line for line in self._lines if (not what or line.what == what) and (id_ is None or line.id == id_)]
        return sorted(found, key=lambda line: line.at)

    def wait_until_told(self, what, id_=None, times=1, timeout=10.0):
        """Wait until jobs have told something; return the lines."""
        wait_for(lambda: len(self.told(what, id_)) >= times, timeout, f"{times} times {what!r} from job {id_ or 'any'}")
        return self.told(what, id_)


class Supervisor:
    """A supervisor under way, in a session and process group of its own."""

    def __init__(self, jobs, folder, app, settings):
        self.jobs = jobs
        self.log = folder / "log.txt"
        variables = {f"FASTQ_{name.upper()}": str(value) for name, value in (SETTINGS | settings).items()}
        variables = {"FASTQ_DATABASE_URL": jobs.url} | variables | {"WITNESS": str(jobs.witness), "PYTHONUNBUFFERED": "1"}
        others = {name: value for name, value in os.environ.items() if not name.startswith("FASTQ_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fastq", "run", app],
                cwd=ROOT,
                env=others | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self.process.pid
        self.procs = int((SETTINGS | settings)["procs"])

    @property
    def said(self):
        """Return everything that it and its children have written."""
        return self.log.read_text(errors="replace")

    def wait_until_it_says(self, text, times=1, timeout=15.0):
        """Wait for a text in the output."""
        wait_for(lambda: self.said.count(text) >= times, timeout, f"{text!r} in the output")

    def wait_until_ready(self):
        """Wait until every worker process has its connection and looks for jobs; return their pids."""
        wait_for(
            lambda: self.sessions("producer") >= self.procs and len(self.workers) == self.procs, 20.0, "the worker processes"
        )
        return self.workers

    def sessions(self, role):
        """Count the database sessions of a role."""
        return sum(name == f"fastq {role}" for _, name in self.jobs.execute(SESSIONS))

    @property
    def descendants(self):
        """Return the pids of all processes below it."""
        return descendants(self.pid)

    @property
    def workers(self):
        """Return the pids of the worker processes that have started to work."""
        return [pid for pid in descendants(self.pid) if title(pid).startswith("fastq: worker") and "starting" not in title(pid)]

    @property
    def fork_server(self):
        """Return the pid of the fork server."""
        (pid,) = [pid for pid in descendants(self.pid) if title(pid) == "fastq: fork server"]
        return pid

    def send(self, number):
        """Send a signal to the supervisor alone."""
        os.kill(self.pid, number)

    def send_all(self, number):
        """Send a signal to the whole process group, as a terminal or a service manager does."""
        os.killpg(self.pid, number)

    def wait(self, timeout=20.0):
        """Wait for the end; return exit code and idle seconds (see Stopwatch). No process may be left."""
        watch, below = Stopwatch(), descendants(self.pid)
        wait_for(lambda: self.process.poll() is not None, timeout, "the end of the supervisor")
        code, took = self.process.returncode, watch.idle()
        wait_until_gone(below, 2.0)
        return code, took

    def stop(self, number=signal.SIGTERM, timeout=20.0):
        """Send a signal and wait for the end; return exit code and idle seconds."""
        self.send(number)
        return self.wait(timeout)

    def clear(self):
        """End whatever is left of it, and tell whether nothing of ours was found broken on the way."""
        below = descendants(self.pid)
        running = self.process.poll() is None
        said = self.said  # a fork server that is just being asked for a child reports that its supervisor was killed
        if running:
            self.process.kill()
            self.process.wait()
        wait_until_gone(below, 5.0)
        print(f"supervisor {self.pid} said:\n{self.said}")  # pytest shows it where the test has failed
        said = said if running else self.said
        ours = [line for line in said.splitlines() if line.startswith("Traceback (most recent call last)")]
        assert ours == [], said  # those of jobs are indented, below their event


def descendants(root):
    """Return the pids of all processes below one."""
    found, unseen = [], [root]
    while unseen:
        parent = unseen.pop()
        with suppress(FileNotFoundError, ProcessLookupError):  # it ends meanwhile: whoever was below it is below another now
            for task in Path(f"/proc/{parent}/task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):
                    children = [int(pid) for pid in (task / "children").read_text().split()]
                    found += children
                    unseen += children
    return found


def title(pid):
    """Return what a process calls itself; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.fixture
def jobs(database, tmp_path):
    """Give a migrated database to put jobs into."""
    made = Jobs(database, tmp_path)
    yield made
    made.connection.close()


@pytest.fixture
def supervise(jobs, tmp_path):
    """Give a function that starts a supervisor with these settings; `ready=False` does not wait for its processes."""
    with supervising(jobs, tmp_path) as start:
        yield start


@contextmanager
def supervising(jobs, where):
    """Give such a function; at the end no process is left of what it started."""
    started = []
    numbers = itertools.count(1)

    def start(app=APP, *, ready=True, **settings):
        folder = where / f"supervisor-{next(numbers)}"
        folder.mkdir()
        started.append(Supervisor(jobs, folder, app, settings))
        if ready:
            started[-1].wait_until_ready()
        return started[-1]

    yield start
    for supervisor in started:
        supervisor.clear()
