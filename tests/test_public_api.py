"""What `import fastq` gives: one screen of names, all of them documented, and quickly."""

import ast
import inspect
import re
import subprocess
import sys
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


def test_args_and_workers_are_imported_without_a_database_driver():
    program = "import sys, fastq; print([name for name in ('psycopg', 'asyncio') if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)

    assert answer.stdout.strip() == "[]"


def test_importing_it_loads_the_rooms_of_declarations_alone():
    program = (
        "import sys, fastq; print(*{name.split('.')[1] for name in sys.modules if name.count('.') > 1 and name[:6] == 'fastq.'})"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)

    assert set(answer.stdout.split()) == {
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
