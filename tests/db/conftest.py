"""What tests of statements share: sessions of the runtime's own kind, a wire that can be cut, and leases as users make them."""

from contextlib import suppress

import pytest

from fastq import Lease
from fastq.errors import DatabaseUnavailable
from tests.db.jobs import session
from tests.proxy import Proxy


@pytest.fixture
def connection(database):
    """Give a session on a fresh, migrated database."""
    opened = session(database)
    yield opened
    opened.close()


@pytest.fixture
def other(database):
    """Give another session on the same database."""
    opened = session(database)
    yield opened
    opened.close()


@pytest.fixture
def proxy(database):
    """Give a wire to the database that can be cut."""
    with Proxy(database) as wire:
        yield wire


@pytest.fixture
def make(database):
    """Give a function that makes a user's lease, with a connection of its own unless told otherwise."""
    made = []

    def lease_of(name="report", **options):
        options = {"ttl": 1.0} | ({} if "conn" in options else {"url": database}) | options
        made.append(Lease(name, **options))
        return made[-1]

    yield lease_of
    for one in made:
        with suppress(DatabaseUnavailable):  # its connection was the test's, and is closed
            one.close()
