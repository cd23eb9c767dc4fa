"""Commands about encrypted args: they show dots, change keys, enqueue and check by the keys of the environment."""

import base64
import json

import pytest

from tests.helpers import execute

pytestmark = pytest.mark.further

APP = """
from dataclasses import dataclass

from fastq import Args, Job, Registry, Secret, Worker

registry = Registry()

@dataclass
class PayArgs(Args, kind="pay", encrypted=True):
    card: str

@dataclass
class BuyArgs(Args, kind="buy"):
    user: int
    card: Secret[str]

@registry.register
class PayWorker(Worker[PayArgs]):
    def work(self, job: Job[PayArgs]) -> None: ...

@registry.register
class BuyWorker(Worker[BuyArgs]):
    def work(self, job: Job[BuyArgs]) -> None: ...
"""
OLD, NEW = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))
CARD = "4111-2222-3333"


@pytest.fixture
def command(fastq, database, tmp_path):
    """Give a function that runs a command with keys in its environment."""
    (tmp_path / "sealed_app.py").write_text(APP)
    return lambda *words, keys=f"old:{OLD}": fastq(*words, FASTQ_DATABASE_URL=database, FASTQ_ARGS_KEYS=keys)


def enqueue(command, tmp_path, kind, args):
    told = command("enqueue", kind, json.dumps(args), "--app", "sealed_app:registry", "--app-dir", tmp_path)
    assert told.returncode == 0, told.stderr


def test_a_job_that_is_enqueued_by_a_command_is_encrypted_shown_with_dots_checked_and_rotated(command, database, tmp_path):
    enqueue(command, tmp_path, "pay", {"card": CARD})
    enqueue(command, tmp_path, "buy", {"user": 7, "card": CARD})
    [(stored,)] = execute(database, "select string_agg(args::text, '') from fastq.job")
    assert stored.count("$fq") == 2
    assert CARD not in stored

    shown = command("jobs", "show", "2").stdout + command("jobs", "show", "1", "--json").stdout
    assert "•••" in shown
    assert json.loads(command("jobs", "show", "2", "--json").stdout)["args"] == {"user": 7, "card": "•••"}
    assert "$fq" not in shown

    check = ("check", "sealed_app:registry", "--app-dir", tmp_path, "--json")
    assert command(*check).returncode == 0
    misfits = json.loads(command(*check, keys=f"new:{NEW}").stdout)["misfits"]
    assert [(one["kind"], one["misfits"]) for one in misfits] == [("buy", 1), ("pay", 1)]
    assert "encrypted with the key 'old', and this program has new alone" in misfits[0]["reason"]

    both = f"new:{NEW},old:{OLD}"
    told = command("jobs", "rotate-keys", "pay", keys=both)
    assert (told.returncode, told.stdout) == (0, "1 job of kind 'pay' encrypted anew, with the key 'new'\n")
    assert json.loads(command("jobs", "rotate-keys", "buy", "--json", keys=both).stdout)["jobs"] == 1
    assert command(*check, keys=f"new:{NEW}").returncode == 0


def test_a_rotation_of_the_archive_says_how_many_rows_have_another_key_and_when_there_are_none(command, database, tmp_path):
    enqueue(command, tmp_path, "pay", {"card": CARD})
    enqueue(command, tmp_path, "pay", {"card": CARD})
    assert command("jobs", "cancel", "1").returncode == 0
    execute(database, "update fastq.job set state = 'running', claim = 1 where id = 2")
    rotate = ("jobs", "rotate-keys", "pay", "--archive")
    both = f"new:{NEW},old:{OLD}"

    first, second = command(*rotate, keys=both), command(*rotate, "--json", keys=both)
    execute(database, "delete from fastq.job")
    last = command(*rotate, keys=both)

    assert first.returncode == 1
    assert first.stdout.splitlines() == [
        "0 jobs of kind 'pay' encrypted anew, with the key 'new'; and 1 row of the archive, 0 of `fastq dead`",
        "still encrypted with the key 'old': 1 row",
    ]
    assert "1 job ran or changed meanwhile" in first.stderr
    assert json.loads(second.stdout)["remaining"] == {"old": 1}
    assert (last.returncode, last.stdout.splitlines()[1]) == (0, "no row of kind 'pay' is encrypted with another key")


def test_a_rotation_that_leaves_jobs_says_so_by_its_exit_code(command, tmp_path):
    enqueue(command, tmp_path, "pay", {"card": CARD})

    told = command("jobs", "rotate-keys", "pay", keys=f"new:{NEW}")

    assert told.returncode == 1
    assert "1 job cannot be opened, the first is 1: encrypted with the key 'old'" in told.stderr


def test_keys_that_are_none_are_refused_without_showing_them(command):
    told = command("jobs", "rotate-keys", "pay", keys="old:c2hvcnQ=")

    assert told.returncode == 2
    assert "FASTQ_ARGS_KEYS: expected NAME:BASE64 of 32 bytes each" in told.stderr
    assert "c2hvcnQ" not in told.stderr


def test_keys_are_no_flag(command):
    assert "--args-keys" not in command("run", "--help").stdout
    assert "FASTQ_ARGS_KEYS" in command("help", "settings").stdout
