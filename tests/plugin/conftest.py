"""A database for the tests of a module, which empty it one after the other: to make one takes longer than most of these tests."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.helpers import create_database, drop_database

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def module_database(server: str, migrated_template: str) -> Iterator[str]:
    """Give the URL of a fresh, migrated database."""
    name = f"fastq_test_{os.getpid()}_module_{next(numbers)}"
    yield create_database(server, name, migrated_template)
    drop_database(server, name)
