"""docs/leases.md lists the statements about leases, L01 to L56, and each has tests that carry its number."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "leases.md"
ROW = re.compile(r"^\| (L\d\d) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
STATEMENTS = [f"L{number:02}" for number in range(1, 57)]


def marked() -> Iterator[tuple[str, str]]:
    """Yield (statement, test) for each mark in the suite; a mark of a whole module counts for its tests."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        of_all = [mark for node in tree.body if isinstance(node, ast.Assign) for mark in marks(node.value)]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                own = [mark for decorator in node.decorator_list for mark in marks(decorator)]
                yield from ((mark, f"{path.relative_to(ROOT)}::{node.name}") for mark in own + of_all)


def marks(node: ast.AST) -> list[str]:
    """Return the statements that `pytest.mark.lease(...)` names in an expression."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.lease"]
    return [str(ast.literal_eval(argument)) for call in calls for argument in call.args]


def test_the_page_lists_each_statement_once_and_in_order():
    assert [number for number, _, _ in ROW.findall(PAGE.read_text())] == STATEMENTS


def test_each_statement_has_a_test_and_no_test_shows_another():
    shown = {statement for statement, _ in marked()}

    assert sorted(set(STATEMENTS) - shown) == [], "statements without a test"
    assert sorted(shown - set(STATEMENTS)) == [], "marks of statements that there are not"


def test_the_tests_that_the_page_names_exist_and_show_what_it_says():
    shown = set(marked())
    named = [(number, test) for number, _, tests in ROW.findall(PAGE.read_text()) for test in re.findall(r"`([^`]+)`", tests)]

    assert [pair for pair in named if pair not in shown] == []
    assert {number for number, _ in named} == set(STATEMENTS), "each statement names at least one"
