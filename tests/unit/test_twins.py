"""The modules that block are made from those that await: all of them are up to date, and the tool says what it cannot make."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastq.postgres.pool import in_loop, in_threads

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "twins.py"


def loaded():
    spec = importlib.util.spec_from_file_location("twins", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["twins"] = module
    spec.loader.exec_module(module)
    return module


twins = loaded()
SIDES = [pytest.param(twin, id=Path(twin.made).name) for twin in twins.TWINS]


def test_all_modules_that_are_made_are_up_to_date():
    checked = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)

    assert (checked.stdout, checked.stderr) == ("", "")
    assert checked.returncode == 0


@pytest.mark.parametrize("twin", SIDES)
def test_a_module_that_is_made_says_by_what_and_has_no_waiting_left(twin):
    text = (ROOT / twins.PACKAGE / twin.made).read_text()

    assert text.splitlines()[0] == f"# Made by tools/twins.py from {twin.source}: change that file, then run `make twins`."
    waiting = (ast.AsyncFunctionDef, ast.AsyncWith, ast.AsyncFor, ast.Await)
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, waiting)]
    assert "import asyncio" not in text


def test_the_modules_that_each_side_has_by_hand_have_the_same_names():
    sources = "".join((ROOT / twins.PACKAGE / twin.source).read_text() for twin in twins.TWINS)
    used = set(re.findall(r"\bin_loop\.(\w+)", sources))

    assert used
    assert [name for name in used if not (hasattr(in_loop, name) and hasattr(in_threads, name))] == []


@pytest.mark.parametrize(
    ("waiting", "blocking"),
    [
        ("async def f() -> None:\n    await g()  # await it\n", "def f() -> None:\n    g()  # await it\n"),
        ("async with a as b, c as d:\n    pass\n", "with a as b, c as d:\n    pass\n"),
        ("x = await f(await g(1), [await h()])\n", "x = f(g(1), [h()])\n"),
        ('"""Say "await" and async."""\n', '"""Say "await" and async."""\n'),
        ("f: Callable[[bool], Awaitable[list[int]]]\n", "f: Callable[[bool], list[int]]\n"),
        ("class AsyncClient: ...\n", "class Client: ...\n"),
        ("from fastq.adapters import drivers_async\nimport asyncpg\n", "from fastq.adapters import drivers\nimport asyncpg\n"),
        ("# `aclose` of AsyncClient\nawait in_loop.sleep(1)\n", "# `close` of Client\nin_threads.sleep(1)\n"),
        ("@asynccontextmanager\nasync def f() -> AsyncIterator[int]: ...\n", "@contextmanager\ndef f() -> Iterator[int]: ...\n"),
    ],
)
def test_a_module_loses_its_waiting_and_keeps_all_else(waiting, blocking):
    assert twins.made_from(waiting, {}) == blocking


def test_words_of_the_table_are_replaced_and_may_name_the_other_side():
    assert twins.made_from("# In a loop: AsyncClient\n", {"In a loop: AsyncClient": "In threads: not AsyncClient"}) == (
        "# In threads: not AsyncClient\n"
    )


@pytest.mark.parametrize("text", ["# there is none\n", "# word\n# word\n"])
def test_words_that_the_source_does_not_have_exactly_once_are_refused(text):
    with pytest.raises(ValueError, match=r"expected these words exactly once, found them [02] times: 'word'"):
        twins.made_from(text, {"word": "other"})
