"""The way of one job from enqueue to archive, as `tools/route.py` counts it: it stays as straight as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / "tools" / "route.py"

MOST = {"files": 35, "changes": 51, "back": 17}
"""The figures of the program today. They were 32, 44 and 13 before a process looked at all of its queues at once and a hint
could be repeated (ADR 0037, 0045); both are on the way of a job in one queue, too. Where it is shorter again, these go down."""


@pytest.mark.further
def test_a_job_comes_by_no_more_files_and_goes_back_to_no_more_of_them(database):
    told = subprocess.run(
        [sys.executable, str(PROGRAM), "--functions"],
        env=os.environ | {"FASTQ_DATABASE_URL": database},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout

    names, *rows = (line.split() for line in told.splitlines())
    counts = dict(zip(names, next(row for row in rows if row[0] == "all"), strict=True))
    assert {name: int(counts[name]) for name in MOST if int(counts[name]) > MOST[name]} == {}, told
