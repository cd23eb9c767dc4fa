"""The rules of the house that a program can check: sizes, rooms, doors, and the headers of the SQL."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "fastq").rglob("*.py"))
STATEMENTS = sorted((ROOT / "fastq" / "sql").rglob("*.sql"))
MODULE_LINES, MODULE_CHARACTERS, FUNCTION_LINES = 400, 16_000, 40  # of a function without its docstring

# One row for each level of the house, from the ground up: a room imports rooms of lower rows, never one of its own row. A room is
# a folder below fastq/, or a module beside the folders; `work` alone is the modules of that folder that are in none of its rooms,
# `jobs/registry` a module that collects what rooms above `jobs` declare, and `args/kinds` one of which a kind's options are made.
ROOMS = (
    "errors events masked backoff size texts",
    "isolate",
    "args",
    "args/versions args/secret",
    "args/kinds",
    "results statistics",
    "steps",
    "jobs",
    "hooks joblogs",
    "jobs/registry",
    "settings workflows integrations",
    "config",
    "environment log sql board app",
    "logs",
    "postgres",
    "postgres/pool",
    "schema adapters service",
    "leases awaiting joblogs/reading subscribing",
    "work/shared admin lead/term",
    "admin/dead admin/deploys admin/doctor admin/running admin/sealed admin/search admin/statistics",
    "admin/bulk admin/exports",
    "enqueue/operate",
    "work/bundles work/codec lead/bulk lead/chores lead/gate lead/observed lead/rescue lead/unique lead/workflow enqueue",
    "work/cursor lead",
    "work/claim work/execute work/complete",
    "work/effects work/isolated work/steps",
    "work",
    "host/vitals",
    "host",
    "web/security web/look web/live",
    "web/routing",
    "web/pages web/cluster",
    "web",
    "cli/terminal",
    "cli/waits cli/history cli/checkup cli/search cli/shell cli/views",
    "cli",
    "bench cli/top",
    "bench/cells",
    "testing __init__ __main__",
)
LEVEL_OF = {room: level for level, row in enumerate(ROOMS) for room in row.split()}
ROOM_MODULES = 12
"""Modules in a room at most: what one sees at a glance."""

TYPES_ALONE = {  # imports that go up, for types alone -> why
    ("jobs/job", "adapters/conn"): "a job says of which libraries the connections are that it may end on",
    ("args/hook", "jobs/job"): "a hook is given jobs",
    ("results/transacting", "jobs/job"): "the maker of a transaction is given its job",
    ("steps/attempt", "jobs/job"): "an attempt is one at a job",
    ("steps/through", "jobs/job"): "the way to the records of steps is asked by a job",
    ("jobs/registry", "leases/singleton"): "a registry's decorator says what the functions are given that it takes",
    ("workflows/steps", "enqueue/items"): "a step is a job as the clients take it, with or without options of its own",
    ("awaiting/results", "enqueue/items"): "a part of a client takes what the client has returned",
    ("awaiting/results_async", "enqueue/items"): "the same",
    ("enqueue/operate/signalling", "enqueue/settings"): "a part of a client has the client's settings",
    ("enqueue/operate/signalling_async", "enqueue/settings"): "the same",
    ("enqueue/operate/operators", "enqueue/settings"): "the same",
    ("enqueue/operate/operators_async", "enqueue/settings"): "the same",
    ("awaiting/results", "enqueue/settings"): "the same part has the client's settings",
    ("awaiting/results_async", "enqueue/settings"): "the same",
    ("joblogs/reading/job_logs", "enqueue/settings"): "the same",
    ("joblogs/reading/job_logs_async", "enqueue/settings"): "the same",
    ("subscribing/event_stream", "enqueue/settings"): "the same",
    ("subscribing/event_stream_async", "enqueue/settings"): "the same",
    ("work/shared/budget", "work/codec/claimed"): "what is shared names what it is handed to and by",
    ("work/shared/held", "work/complete/completer"): "the same",
}

NAMED_AFTER = (
    *(
        "cli",
        "cli/terminal",
        "cli/waits",
        "cli/history",
        "cli/checkup",
        "cli/search",
        "cli/shell",
        "cli/views",
        "cli/top",
        "bench",
        "bench/cells",
    ),
    *("admin", "admin/doctor", "lead/chores", "lead/observed", "web/pages", "web/cluster"),
)
"""Rooms of commands, operations, checks, chores and pages: their modules are named after the thing that they are about."""

DOORS = {  # what is imported -> who may
    "psycopg": {
        "postgres/db",
        "postgres/urls",
        "postgres/moments",
        "adapters/joined",
        "postgres/pool/pool",
        "postgres/pool/pool_async",
    },
    "fastq._fastq": {"work/codec/core"},
    "signal": {
        "host/supervisor",
        "work/seat",
        "host/preload",
        "work/shared/forks",
        "work/isolated/nursery",
        "work/isolated/bounds",
        "cli/__init__",
        "cli/dev",
        "cli/top/display",
    },
    "multiprocess": {"host/fork_server"},
    "cryptography": {"args/secret/ring"},
}
CALLS = {  # an attribute of os -> who may use it
    "environ": {"config", "environment"},
    "getenv": set(),
    "fork": {"work/isolated/nursery"},  # of a process with one thread; multiprocess does all else, in the fork server
}

OTHER_MEANINGS = {  # a statement's name -> modules in which that word is something else
    "job_due": {"lead/chores/reindex"},  # an index
    "job_waiting": {"admin/doctor/vacuuming"},  # the same
    "once": {"jobs/periodic"},  # a policy for missed ticks
    "transaction_id": {"sql/statements"},  # the statement that goes by the server's clocks in tests, too
}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def short(path: Path) -> str:
    """Return a module's path below fastq/, without its ending."""
    return str(path.relative_to(ROOT / "fastq").with_suffix(""))


@functools.cache
def room_of(module: str) -> str | None:
    """Return the room of a module, given as in `work/claim/producer` or `fastq.work.claim.producer`; None if it has none."""
    parts = module.removeprefix("fastq.").replace(".", "/").split("/")
    rooms = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((room for room in rooms if room in LEVEL_OF), None)


@functools.cache  # each test looks at all modules
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from running_nodes(node)


@functools.cache
def imports(path: Path, nodes: Callable[[ast.AST], Iterator[ast.AST]]) -> set[str]:
    """Return the imports of a module, `from fastq import x` as `fastq.x`; `nodes` says whether those for types count."""
    found = set()
    for node in nodes(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}: imports are absolute"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in OURS else str(node.module))
    return found


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function without its docstring."""
    first = function.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) is not None else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_modules_and_functions_are_short(path):
    """How branched a function may be is ruff's to say: C901 in pyproject.toml."""
    source = path.read_text()
    functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    assert len(source.splitlines()) <= MODULE_LINES
    assert len(source) <= MODULE_CHARACTERS
    assert {f.name for f in functions if lines_of(f) > FUNCTION_LINES} == set()


def test_no_two_modules_have_one_name():
    """But a command and its room, say: `from fastq.enqueue import settings` must not be taken for another."""
    names = Counter(path.stem for path in MODULES if room_of(short(path)) not in NAMED_AFTER and not path.stem.startswith("__"))

    assert {name for name, count in names.items() if count > 1} == set()


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_go_down_and_never_to_a_room_of_the_same_level(path):
    own = room_of(short(path))
    assert own is not None, f"{named(path)} is in no room: give it a place in ROOMS in tests/test_house.py"
    for module in imports(path, ast.walk):
        other = room_of(module) if module.startswith("fastq.") and module not in ("fastq._fastq", "fastq.sql") else None
        if other in (None, own) or LEVEL_OF[other] < LEVEL_OF[own]:
            continue
        running = module in imports(path, running_nodes)
        assert not running, f"{named(path)} imports {module}, which is not below it"
        assert any((short(path), above) in TYPES_ALONE for above in (module[6:].replace(".", "/"), other))


def test_each_import_for_types_that_is_allowed_to_go_up_is_there():
    up = {(short(path), module[6:].replace(".", "/")) for path in MODULES for module in imports(path, ast.walk)}

    assert set(TYPES_ALONE) <= up


@pytest.mark.parametrize("room", sorted(LEVEL_OF))
def test_a_room_is_seen_at_a_glance_and_begins_with_a_sentence(room):
    folder = ROOT / "fastq" / room
    if not folder.is_dir():
        assert (ROOT / "fastq" / f"{room}.py").is_file(), f"ROOMS names {room}, which is not there"
        return
    modules = [path for path in folder.glob("*.py") if path.stem != "__init__"]

    assert len(modules) <= ROOM_MODULES
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_each_thing_has_one_door(path):
    used = {door for module in imports(path, running_nodes) for door in DOORS if (module + ".").startswith(door + ".")}
    attributes = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute))
    touched = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "os"}
    name = short(path)

    assert {door for door in used if name not in DOORS[door]} == set()
    assert {call for call in touched & set(CALLS) if name not in CALLS[call]} == set()


OURS = {"fastq." + short(path).removesuffix("/__init__").replace("/", ".") for path in MODULES}


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
    return {n.value for n in ast.walk(tree_of(path)) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


@pytest.mark.parametrize("path", [path for path in STATEMENTS if path.parent.name == "sql"], ids=named)
def test_a_statement_is_called_by_the_modules_that_its_header_names(path):
    told = re.search(r"^-- called by: ([a-z_/]+(?:, [a-z_/]+)*)[.:]", header(path), flags=re.MULTILINE)
    assert told, "'called by' begins with the modules below fastq/, and ends them with a full stop or a colon"
    callers = {
        short(module)
        for module in MODULES
        if room_of(short(module)) not in ("bench", "testing") and path.stem in strings(module)  # these run them as others do
    }

    assert set(told[1].split(", ")) == callers - OTHER_MEANINGS.get(path.stem, set())


@pytest.mark.parametrize("path", [path for path in STATEMENTS if path.parent.name == "migrations"], ids=named)
def test_a_migration_begins_with_the_locks_it_takes(path):
    assert "locks" in header(path).lower()
