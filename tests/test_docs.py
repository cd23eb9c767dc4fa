"""The pages of docs/ are true: their code runs, their links lead somewhere, their lists are those of the code.

How a page is read, block by block:
    python      the page's programs. `# NAME.py` in the first line names the file, `# FOLDER/NAME.py` one of a package; a block
                without one continues main.py and is run first; a page without a main.py has each of its files run
    console     then `$ fastq run` and `$ fastq dev`, until no job is available or running, then each other `$ fastq`,
                `$ python` and `$ pytest`, in their order; before all, what ends in `> FILE`, which keeps what is printed
    sql         run in one transaction that is rolled back
    all others  are for the reader's machine, and are not run
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.helpers import execute, wait_for

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {"fastq": ["-m", "fastq"], "python": [], "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider"]}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Return the texts of a page's blocks in one language."""
    return [text for found, text in BLOCK.findall(page.read_text()) if found == language]


def files(page: Path) -> dict[str, str]:
    """Put the page's Python together, file by file."""
    texts: dict[str, str] = {}
    for text in blocks(page, "python"):
        name = re.match(r"# ([\w/]+\.py)\n", text)
        where = name[1] if name else "main.py"
        texts[where] = texts.get(where, "") + text
    return texts


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page that can be run: ours, and Python's."""
    lines = [line[2:] for text in blocks(page, "console") for line in text.splitlines() if line.startswith("$ ")]
    words = [shlex.split(line, comments=True) for line in lines]
    return [command for command in words if command and command[0] in PROGRAMS and command[1:2] != ["bench"]]


def has_code(page: Path) -> bool:
    return bool(blocks(page, "python") or commands(page))


def started(command: list[str]) -> list[str]:
    return [sys.executable, *PROGRAMS[command[0]], *command[1:]]


def is_service(command: list[str]) -> bool:
    return command[0] == "fastq" and command[1] in ("run", "dev")


@contextmanager
def running(command, folder, environment):
    """Run a service for as long as the block takes, and end it as a service manager does."""
    with (folder / "log").open("w") as log:
        service = subprocess.Popen(started(command), cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            service.terminate()
            code = service.wait(40)
    assert code == 0, (folder / "log").read_text()


def work_off(database: str, command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a service until nothing is left to do now."""
    with running(command, folder, environment):
        started = "select count(*) from fastq.process where expires_at > clock_timestamp()"
        wait_for(lambda: execute(database, started) > [(0,)], 40, f"a process of the page; see {folder / 'log'}")
        busy = "select count(*) from fastq.job where state in ('available', 'running')"
        wait_for(lambda: execute(database, busy) == [(0,)], 40, f"the end of the page's jobs; see {folder / 'log'}")


@pytest.mark.further
@pytest.mark.process
@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=named)
def test_the_code_of_a_page_runs(page: Path, server: str, database: str, tmp_path: Path) -> None:
    folder = tmp_path / "app"  # not a folder that everybody may write to
    folder.mkdir(mode=0o755)
    for name, text in files(page).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for package in file.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
    environment = {**os.environ, "FASTQ_DATABASE_URL": database, "FASTQ_TEST_DATABASE_URL": server}
    names = ["main.py"] if "main.py" in files(page) else list(files(page))
    programs = [["python", name] for name in names]
    services = [command for command in commands(page) if is_service(command)]
    makers = [command for command in commands(page) if ">" in command]
    others = [command for command in commands(page) if command not in [*programs, *services, *makers]]

    for command in [*makers, *programs, *services, *others]:
        if is_service(command):
            work_off(database, command, folder, environment)
            continue
        kept = command[command.index(">") + 1 :] if ">" in command else []
        words = command[: -1 - len(kept)] if kept else command
        done = subprocess.run(
            started(words), cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=50
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        for name in kept:
            (folder / name).write_text(done.stdout)


@pytest.mark.further
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sql")], ids=named)
def test_the_sql_of_a_page_runs(page: Path, database: str) -> None:
    with psycopg.connect(database) as conn:
        for text in blocks(page, "sql"):
            conn.execute(text)
        conn.rollback()


@pytest.mark.parametrize("page", TEXTS, ids=named)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text())
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]

    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_the_index_lists_each_page() -> None:
    index = (DOCS / "README.md").read_text()

    assert [named(page) for page in PAGES if page.name != "README.md" and f"({page.relative_to(DOCS)})" not in index] == []


def emitted() -> set[str]:
    """Return the names of the events in the code; an f-string's unknown part stands as *."""
    names: set[str] = set()
    for path in (ROOT / "fastq").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "emit":
                first = node.args[0]
                for name in [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]:
                    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
                    names.add("".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts))
    return names


def test_the_events_of_the_operators_page_are_those_of_the_code() -> None:
    told = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", (DOCS / "operating.md").read_text(), re.MULTILINE))
    patterns = emitted()
    whole = {name for name in patterns if "*" not in name}

    assert whole - told == set(), "events without a line in docs/operating.md"
    assert {name for name in told - whole if not any(matches(name, pattern) for pattern in patterns - whole)} == set()


def test_the_chores_of_the_operators_page_are_those_of_the_code() -> None:
    table = (DOCS / "operating.md").read_text().partition("| chore |")[2].partition("\n\n")[0]
    modules = "".join(path.read_text() for path in (ROOT / "fastq" / "lead").rglob("*.py"))

    assert sorted(re.findall(r"^\| ([a-z_]+) \|", table, re.MULTILINE)) == sorted(
        re.findall(r'^    name = "(\w+)"', modules, re.MULTILINE)
    )


def matches(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern.replace(".", r"\.").replace("*", ".+"), name) is not None


@pytest.mark.parametrize("name", ["settings.md", "cli.md", "api.md"])
def test_the_reference_is_what_the_code_declares(name: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, DOCS / "reference" / "generate.py", tmp_path], check=True, timeout=30)

    assert (DOCS / "reference" / name).read_text() == (tmp_path / name).read_text(), "run python docs/reference/generate.py"


@pytest.mark.further
def test_the_measurements_of_the_decisions_still_run(server: str) -> None:
    environment = {**os.environ, "FASTQ_DATABASE_URL": server}
    measured = subprocess.run(
        [sys.executable, ROOT / "bench" / "adr" / "measure.py", "--jobs", "2000"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=50,
    )
    questions = re.findall(r"`python bench/adr/measure\.py (\w+)`", "".join(page.read_text() for page in PAGES))

    assert measured.stdout.count("us Postgres") >= len(questions) > 0
    assert [question for question in questions if f"def {question}(" not in (ROOT / "bench/adr/measure.py").read_text()] == []
