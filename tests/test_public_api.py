"""What `import fastq` gives: one screen of names, all of them documented, and quickly."""

import ast
import inspect
import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

import fastq
from fastq import errors, logs, testing

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "Args", "AsyncClient", "AsyncLease", "Backfill", "Cancel", "Client", "Config", "Crash", "Cron", "Dep", "Discard",
    "Enqueue", "Enqueued", "Enqueuing", "Every", "Fair", "FastqError", "Finished", "HeardEvent", "Hook", "Isolate", "Job",
    "JobCancelled", "JobDetail", "JobFilter", "JobLost", "JobProgress", "JobTimeout", "Kind", "Lease", "Limit", "Living",
    "LogLine", "Ordered", "Queue", "Rate", "RateLimited", "Registry",
    "Retry", "Secret", "Singleton", "SingletonStopped", "Snooze", "StatRow", "State", "Step", "Times", "Unique", "Worker",
    "Workflow", "chain", "current_job", "group", "kind", "upgrade", "use_keys",
}  # fmt: skip
LATE = r"fastq\.(admin|awaiting|leases|subscribing|enqueue\.client|hooks\.current|joblogs\.reading)"
"""The modules that are imported by the programs alone that ask for their names: most need the database's driver."""

OURS = {
    node.name
    for path in (ROOT / "fastq").rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ClassDef)
}


def test_the_public_names_are_these_and_no_others():
    assert set(fastq.__all__) == PUBLIC
    assert fastq.__all__ == sorted(fastq.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name):
    public = getattr(fastq, name)

    assert (vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__ or "").strip()


@pytest.mark.parametrize(
    ("public", "of_ours"),
    [
        (fastq.Job, {"row", "batch", "outcome"}),
        (fastq.Registry, {"declare", "declared", "sorts"}),
        (fastq.Singleton, set()),
        (fastq.Worker, set()),
    ],
)
def test_what_users_hold_most_says_what_it_has(public, of_ours):
    members = {name for name in vars(public) if not name.startswith("_")} - of_ours

    assert {name for name in members if not re.search(rf"`(\w+\.)?{name}\b", public.__doc__)} == set()


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_what_the_pages_name_is_public(page):
    hooks = {"Tracing", "Sentry", "SessionPerJob", "AsyncSessionPerJob"}  # of fastq.integrations
    public = {*PUBLIC, *vars(errors), *testing.__all__, *logs.__all__, "logs", "Event", "subscribe", *hooks}
    public |= {"dashboard", "Viewer", "READER", "OPERATOR"}
    of_others = {"Connection", "Session", "Host"}  # SQLAlchemy's; a header of HTTP
    text = page.read_text()
    lines = re.findall(r"^from fastq[.\w]* import (.+)$", text, re.MULTILINE)
    imported = {name for line in lines for name in re.split(r"\W+", line)}
    named = set(re.findall(r"`([A-Z]\w+)(?:\(.*?\))?`", text)) & OURS

    assert (imported | named) - public - of_others == set()


def test_a_star_import_brings_what_is_imported_late_too():
    names = {}
    exec("from fastq import *", names)

    assert names.keys() >= PUBLIC


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fastq' has no attribute 'Task'"):
        _ = fastq.Task


def test_dir_lists_each_name_before_it_is_imported():
    program = "import fastq; print(*dir(fastq))"
    listed = set(run(program).split())

    assert listed >= PUBLIC | {"errors", "events", "logs", "testing"}


@pytest.mark.parametrize("name", ["errors", "events", "logs", "testing"])
def test_a_public_module_is_there_without_an_import_of_its_own(name):
    assert run(f"import fastq; print(fastq.{name}.__name__)").strip() == f"fastq.{name}"


def test_each_name_is_imported_from_the_module_that_a_checker_is_told():
    tree = ast.parse((ROOT / "fastq" / "__init__.py").read_text())
    told = {alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert {name: told.get(name) for name in PUBLIC} == fastq._HOMES


def test_args_and_workers_are_imported_without_a_database_driver():
    program = f"import sys; from fastq import {', '.join(DECLARING)}"

    assert run(f"{program}; print([name for name in ('psycopg', 'asyncio') if name in sys.modules])").strip() == "[]"


ROOMS = "print(*{name.split('.')[1] for name in sys.modules if name.count('.') > 1 and name[:6] == 'fastq.'})"
DECLARING = sorted(PUBLIC - {name for name, home in fastq._HOMES.items() if re.match(LATE, home)})


def test_importing_it_loads_no_room_and_a_name_the_rooms_of_declarations_alone():
    assert run(f"import sys, fastq; {ROOMS}").split() == []
    assert set(run(f"import sys; from fastq import {', '.join(DECLARING)}; {ROOMS}").split()) == {
        "args",
        "enqueue",
        "hooks",
        "joblogs",
        "jobs",
        "results",
        "settings",
        "steps",
        "workflows",
    }


def test_a_probe_that_runs_a_command_every_few_seconds_loads_hardly_more_than_the_settings():
    program = f"import sys; from fastq.cli import main; main(['health', '--health', '127.0.0.1:9']); {ROOMS}"
    loaded = run(f"{program}; print(*(name for name in ('msgspec', 'logging', 'hashlib', 'difflib') if name in sys.modules))")

    assert set(loaded.split()) == {"args", "cli", "jobs", "settings"}


def test_args_are_encrypted_by_the_key_of_the_environment_in_a_program_that_has_no_client():
    program = """
from dataclasses import dataclass
from fastq import Args, Secret
@dataclass
class PayArgs(Args, kind="pay"):
    card: Secret[str]
print(PayArgs.__fastq_kind__.codec.encode(PayArgs(Secret("4711"))).decode())
"""

    assert '"key":"2026-11"' in run(program, FASTQ_ARGS_KEYS=f"2026-11:{b64encode(bytes(32)).decode()}")


def run(program, **environment):
    """Run a program in an interpreter of its own; return its output."""
    environment = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    return done.stdout
