"""A session of the runtime's own kind for each test of a statement, and a second one to get in its way."""

import pytest

from tests.db.jobs import session


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
