"""What `import fastq` gives: one screen of names, all of them documented, and quickly."""

import subprocess
import sys

import pytest

import fastq

PUBLIC = {
    "Args", "AsyncClient", "Backfill", "Cancel", "Client", "Config", "Cron", "Enqueue", "Every", "FastqError",
    "Job", "Kind", "Lease", "Registry", "Singleton", "Snooze", "Worker", "kind",
}  # fmt: skip


def test_the_public_names_are_these_and_no_others():
    assert set(fastq.__all__) == PUBLIC
    assert fastq.__all__ == sorted(fastq.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name):
    assert (getattr(fastq, name).__doc__ or "").strip()


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
