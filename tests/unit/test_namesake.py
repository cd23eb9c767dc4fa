"""Another distribution is imported as fastq, too: where both lie in one folder, the import says so, in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "fastq"


@pytest.fixture
def importing(tmp_path):
    """Give a function that imports fastq from a folder with some more entries, and returns what that tells."""

    def told(*beside):
        for name in beside:
            (tmp_path / name).mkdir()
        (tmp_path / "fastq").symlink_to(PACKAGE)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        done = subprocess.run(
            [sys.executable, "-c", "import fastq; print(fastq.__file__)"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.startswith(str(tmp_path))
        return done.stderr

    return told


@pytest.mark.parametrize("name", ["fastq-2.0.4.dist-info", "fastq-2.0.4-py3.11.egg-info"])
def test_an_import_beside_the_namesake_warns_of_it_and_says_what_to_do(importing, name):
    told = importing(name, "fastq_jobs-0.1.0.dist-info")

    assert "RuntimeWarning: two installed distributions are imported as 'fastq'" in told
    assert "pip uninstall fastq" in told
    assert told.count("RuntimeWarning") == 1


def test_an_import_beside_other_distributions_is_silent(importing):
    assert importing("fastq_jobs-0.1.0.dist-info", "fastqsomething-1.0.dist-info", "fastq_plus-1.0.dist-info") == ""
