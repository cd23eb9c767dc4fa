"""The rules of the house that a program can check: sizes, layers, doors, and the headers of the SQL."""

import ast
import functools
import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "fastq").rglob("*.py"))
STATEMENTS = sorted((ROOT / "fastq" / "sql").rglob("*.sql"))
MODULE_LINES, FUNCTION_LINES = 400, 60

# A module imports modules of lower layers, and of its own, for types too. A new module gets its place here.
LAYERS = (
    "errors config environment masked job retry retention",
    (
        "codec _codec_py _codec_c args args_json args_equal args_faults schedule periodic worker worker_faults board claimed "
        "lane outcome db sqlstate moments hints pins urls statements qualified events log stdout enqueue wake_limiter pool "
        "adapters conn forks django_jobs refusals"
    ),
    (
        "client client_async producer budget feed portion waiting resting oddities unanswered held away forgotten "
        "hand_back executor loop watchdog completer cursor claims rescan low_water listener registrar recovery neighbours "
        "lease lease_memory elector term chores periodic_store maintainer singleton singletons migrate partitions "
        "embedded guarded app admin admin_leaders admin_periodic connecting pooler client_settings"
    ),
    "seat process children nursery places waker supervisor",
    "cli bench testing __init__ __main__",
)
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules.split()}

UPWARD = {("worker", "singleton")}
"""Imports that go up, for types alone: a registry's decorator says what the functions are given that it takes."""

DOORS = {  # what is imported -> who may
    "psycopg": {"db", "pool", "urls", "moments"},
    "fastq._fastq": {"_codec_c"},
    "signal": {"supervisor", "seat", "nursery", "forks", "cli"},
    "multiprocess": {"children"},
}
CALLS = {  # an attribute of os -> who may use it
    "environ": {"config", "environment"},
    "getenv": set(),
    "fork": set(),  # multiprocess does, in the fork server
}

OTHER_MEANINGS = {  # a statement's name -> modules in which that word is something else
    "job_due": {"chores/reindex"},  # an index
    "once": {"periodic"},  # a policy for missed ticks
}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def layer_name(path: Path) -> str:
    """Return the name by which LAYERS knows a module: the first part below fastq/."""
    return path.relative_to(ROOT / "fastq").with_suffix("").parts[0]


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from running_nodes(node)


def imports(path: Path, nodes: Callable[[ast.AST], Iterator[ast.AST]]) -> Iterator[str]:
    """Yield what a module imports, `from fastq import x` as `fastq.x`; `nodes` says whether what it imports for types counts."""
    for node in nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}: imports are absolute"
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from names if node.module == "fastq" else [str(node.module)]


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_modules_and_functions_are_short(path):
    source = path.read_text()
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    assert len(source.splitlines()) <= MODULE_LINES
    assert [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > FUNCTION_LINES] == []


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_go_down_only(path):
    name = layer_name(path)
    assert name in LAYER_OF, f"{named(path)} has no layer: give it a place in LAYERS in tests/test_house.py"
    ours = {module.split(".")[1] for module in imports(path, ast.walk) if module.startswith("fastq.")} - {"_fastq"}

    assert {module for module in ours if LAYER_OF.get(module, -1) > LAYER_OF[name] and (name, module) not in UPWARD} == set()


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_each_thing_has_one_door(path):
    used = {door for module in imports(path, running_nodes) for door in DOORS if (module + ".").startswith(door + ".")}
    tree = ast.parse(path.read_text())
    touched = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "os"}
    name = layer_name(path)

    assert {door for door in used if name not in DOORS[door]} == set()
    assert {call for call in touched & set(CALLS) if name not in CALLS[call]} == set()


def header(path: Path) -> str:
    """Return the comment lines that a file of SQL begins with."""
    return "".join(takewhile(lambda line: line.startswith("--"), path.read_text().splitlines(keepends=True)))


@pytest.mark.parametrize("path", [path for path in STATEMENTS if path.parent.name == "sql"], ids=named)
def test_a_statement_begins_with_what_caller_index_and_locks(path):
    labels = re.findall(r"^-- (what|called by|index|locks): \S", header(path), flags=re.MULTILINE)

    assert labels == ["what", "called by", "index", "locks"]


@functools.cache
def strings(path: Path) -> set[str]:
    """Return the strings that a module holds."""
    return {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


@pytest.mark.parametrize("path", [path for path in STATEMENTS if path.parent.name == "sql"], ids=named)
def test_a_statement_is_called_by_the_modules_that_its_header_names(path):
    told = re.search(r"^-- called by: ([a-z_/]+(?:, [a-z_/]+)*)[.:]", header(path), flags=re.MULTILINE)
    assert told, "'called by' begins with the modules below fastq/, and ends them with a full stop or a colon"
    callers = {
        str(module.relative_to(ROOT / "fastq").with_suffix(""))
        for module in MODULES
        if layer_name(module) != "bench" and path.stem in strings(module)  # bench runs them to measure them
    }

    assert set(told[1].split(", ")) == callers - OTHER_MEANINGS.get(path.stem, set())


@pytest.mark.parametrize("path", [path for path in STATEMENTS if path.parent.name == "migrations"], ids=named)
def test_a_migration_begins_with_the_locks_it_takes(path):
    assert "locks" in header(path).lower()
