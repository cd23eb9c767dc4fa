"""mypy and pyright refuse wrong args where they are written: every marked line of usage.py, and no other."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.further

ROOT = Path(__file__).parents[2]
USAGE = Path(__file__).with_name("usage.py")


def lines_marked(checker):
    lines = enumerate(USAGE.read_text().splitlines(), 1)
    marks = [(number, re.search(r"# wrong(?:: (\w+))?", line)) for number, line in lines]
    return [number for number, mark in marks if mark and mark[1] in (None, checker)]


def run(*command, timeout=55):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def pyright():
    """Give the command, where it starts: its package brings no node, and fetches one where there is none."""
    command = (sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson")
    if run(*command[:3], "--version").returncode:
        pytest.skip("pyright does not start: it needs node, or pip install 'pyright[nodejs]'")
    return command


def test_mypy_refuses_what_is_wrong_and_nothing_else():
    checked = run(sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", str(USAGE))
    refused = re.findall(r"usage\.py:(\d+): error:", checked.stdout)

    assert sorted({int(number) for number in refused}) == lines_marked("mypy"), checked.stdout + checked.stderr


def test_pyright_refuses_what_is_wrong_and_nothing_else(pyright):
    checked = run(*pyright, str(USAGE))
    found = json.loads(checked.stdout)["generalDiagnostics"]
    refused = {problem["range"]["start"]["line"] + 1 for problem in found if problem["severity"] == "error"}

    assert sorted(refused) == lines_marked("pyright"), checked.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)  # s; 20 of one core
def test_pyright_finds_nothing_wrong_in_the_package_and_the_examples(pyright):
    checked = run(*pyright, timeout=170)

    assert json.loads(checked.stdout)["generalDiagnostics"] == []
