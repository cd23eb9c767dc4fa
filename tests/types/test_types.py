"""mypy and pyright refuse wrong args where they are written: every marked line of usage.py, and no other."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USAGE = Path(__file__).with_name("usage.py")


def lines_marked(checker):
    lines = enumerate(USAGE.read_text().splitlines(), 1)
    marks = [(number, re.search(r"# wrong(?:: (\w+))?", line)) for number, line in lines]
    return [number for number, mark in marks if mark and mark[1] in (None, checker)]


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)


def test_mypy_refuses_what_is_wrong_and_nothing_else():
    checked = run(sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", str(USAGE))
    refused = re.findall(r"usage\.py:(\d+): error:", checked.stdout)

    assert sorted({int(number) for number in refused}) == lines_marked("mypy"), checked.stdout + checked.stderr


def test_pyright_refuses_what_is_wrong_and_nothing_else():
    if run(sys.executable, "-m", "pyright", "--version").returncode:
        pytest.skip("pyright does not start: it needs node, or pip install 'pyright[nodejs]'")

    checked = run(sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(USAGE))
    found = json.loads(checked.stdout)["generalDiagnostics"]
    refused = {problem["range"]["start"]["line"] + 1 for problem in found if problem["severity"] == "error"}

    assert sorted(refused) == lines_marked("pyright"), checked.stdout
