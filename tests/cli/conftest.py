"""The command line as a user has it: real programs, started in a folder with a small application."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

APP = """
from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker

registry = Registry()
empty = Registry()


@dataclass
class NoteArgs(Args, kind="note", max_attempts=7):
    text: str
    times: int = 1


@registry.register
class NoteWorker(Worker[NoteArgs]):
    def work(self, job: Job[NoteArgs]) -> str:
        print(f"NOTE {job.args.text}", flush=True)
        return job.args.text


@dataclass
class MailArgs(Args, kind="mail", queue="emails"):
    pass


@registry.register
class MailWorker(Worker[MailArgs]):
    async def work(self, job: Job[MailArgs]) -> None:
        pass
"""


def environment(**variables):
    """Return our environment with these variables and no others of fastq's."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FASTQ_") and name != "NO_COLOR"}
    return ours | {"PYTHONUNBUFFERED": "1", "COLUMNS": "120"} | variables


def command(*words):
    """Return the command line of `fastq WORDS`."""
    return [sys.executable, "-m", "fastq", *(word if isinstance(word, bytes) else str(word) for word in words)]


@pytest.fixture
def folder(tmp_path):
    """Give a project's folder with the application `app`."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.fixture
def fastq(folder):
    """Give a function that runs `fastq ...` in the project's folder, without a database."""

    def run(*words, stdin="", **variables):
        return subprocess.run(
            command(*words),
            cwd=folder,
            env=environment(**variables),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return run


@pytest.fixture
def on_database(fastq, database):
    """Give the same with a migrated database, which must succeed unless the exit code is told; it returns stdout."""

    def run(*words, code=0, **options):
        done = fastq(*words, FASTQ_DATABASE_URL=database, **options)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.fixture
def project():
    """Give a project's folder that the user of root's embedded Postgres can pass."""
    folder = Path(tempfile.mkdtemp(prefix="fastq-test-cli-", dir="/tmp"))
    folder.chmod(0o711)
    (folder / "app.py").write_text(APP)
    yield folder
    shutil.rmtree(folder)


ROOT = Path(__file__).parent.parent.parent
