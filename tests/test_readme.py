"""The README's code runs: its Python as one program, its commands against a real database."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.helpers import wait_for

pytestmark = pytest.mark.further

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README.read_text())
PYTHON = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [
    shlex.split(line[2:], comments=True)
    for language, text in BLOCKS
    if language == "console"
    for line in text.splitlines()
    if line.startswith("$ fastq")
]
ENQUEUES = next(text for text in PYTHON if "client.enqueue(" in text)
SHOP = "\n".join(text for text in PYTHON if text is not ENQUEUES)

DEFINE = """
import shop
from fastq import Config, admin
from fastq.lead import definitions

config = Config.load()
definitions.define(admin.connect(config, config.database_url), shop.registry)
"""


@pytest.fixture
def shop(tmp_path: Path, database: str) -> dict[str, str]:
    """Write the README's application into a folder and give the environment to run it in."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "enqueue.py").write_text(ENQUEUES)
    return {**os.environ, "FASTQ_DATABASE_URL": database, "PYTHONPATH": str(tmp_path)}


def count(database: str, table: str) -> int:
    """Count the rows of a table."""
    with psycopg.connect(database) as conn:
        return conn.execute(f"select count(*) from fastq.{table}").fetchone()[0]


@pytest.mark.process
def test_the_readmes_jobs_are_enqueued_and_worked(shop: dict[str, str], database: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "enqueue.py"], cwd=tmp_path, env=shop, check=True, timeout=30)
    enqueued = count(database, "job")

    run = [sys.executable, "-m", "fastq", "run", "shop:registry", "--procs", "1", "--queue", "default", "--queue", "emails"]
    supervisor = subprocess.Popen(run, cwd=tmp_path, env=shop, stdout=subprocess.DEVNULL)
    ours = "job_archive where tags::text like '%periodic:%' is not true"  # a tick may fall into this minute
    wait_for(lambda: count(database, ours) == enqueued - 1, 30, "all jobs but the one that is due in a minute")
    supervisor.terminate()

    assert supervisor.wait(30) == 0
    assert enqueued == 1 + 1 + 2 + 1000 + 1 + 3


@pytest.mark.process
@pytest.mark.parametrize("command", [c for c in COMMANDS if c[1] not in ("run", "dev")], ids=" ".join)
def test_the_readmes_commands_do_what_they_say(command: list[str], shop: dict[str, str], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "enqueue.py"], cwd=tmp_path, env=shop, check=True, timeout=30)
    if command[1] == "periodic":  # they are known when the first supervisor has started
        subprocess.run([sys.executable, "-c", DEFINE], cwd=tmp_path, env=shop, check=True, timeout=30)

    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=shop, check=False, capture_output=True, text=True, timeout=30
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.process
def test_the_readmes_run_command_starts(shop: dict[str, str], database: str, tmp_path: Path) -> None:
    command = next(c for c in COMMANDS if c[1] == "run")
    supervisor = subprocess.Popen([sys.executable, "-m", *command], cwd=tmp_path, env=shop, stdout=subprocess.DEVNULL)

    wait_for(lambda: count(database, "process") >= 8, 30, "eight processes")
    supervisor.terminate()

    assert supervisor.wait(30) == 0


@pytest.mark.process
def test_jobs_are_listed_as_json(shop: dict[str, str], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "enqueue.py"], cwd=tmp_path, env=shop, check=True, timeout=30)

    listed = subprocess.run(
        [sys.executable, "-m", "fastq", "jobs", "list", "--json"],
        cwd=tmp_path,
        env=shop,
        capture_output=True,
        check=True,
        timeout=30,
    )

    assert {job["kind"] for job in json.loads(listed.stdout)} == {"mail"}
