"""Databases for the runs of pytest: a server of our own where none is configured, a database for each process, emptied each time.

Called by the fixtures of the plugin (fastq_pytest/), in the process of pytest or in one of pytest-xdist's. Each process has its
own database, by a name that no other one has, so nothing is shared between processes but the server. `_sessions` and `_clients`
are of the process: the thread that runs the fixtures fills them, and `kept` closes and empties them at its end. A database is
dropped when its run ends. One of a run that was killed stays on a server that is not ours; on the embedded one the next run
drops it.

The embedded server is kept in the user's cache, so that it is made once, and is stopped by the last run that uses it.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastq.enqueue.client import Client
from fastq.errors import ConfigError, DatabaseUnavailable
from fastq.postgres import db, embedded
from fastq.testing.at_work import session
from fastq.testing.clock import empty, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.config import Config
    from fastq.postgres.db import Connection

FOLDER = Path("~/.cache/fastq/test-postgres")
"""The folder of the embedded server: one for a user, since it is shared by runs and costs a second to make."""

SETTINGS = {
    "fsync": "off",  # a database of tests need not survive the machine
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",  # of many processes of pytest-xdist, each with the pools of clients
}

NAME = re.compile(r"fastq_test_(\d+)_[0-9a-f]+")
"""The name of a database: with the pid of its process, by which the next run knows one that is nobody's."""

DENIED = "42501"
"""Postgres' code for a right that a role has not."""

_sessions: dict[tuple[str, str], Connection] = {}
_clients: dict[tuple[str, str], Client] = {}
"""The session and the client of this process for each database, kept from test to test: to connect takes as long as a test."""


@contextmanager
def serving(folder: str = "") -> Iterator[str]:
    """Have the embedded server run; give its URL."""
    with embedded.start(Path(folder or FOLDER).expanduser(), settings=SETTINGS) as server:
        with suppress(db.Error, DatabaseUnavailable):
            _drop_forgotten(server.url)
        yield server.url


@contextmanager
def database(server: str = "") -> Iterator[str]:
    """Give the URL of a database that is prepared for tests and dropped at the end; on the embedded server if none is named.

    For tests without pytest, and for programs that try something out: the plugin's fixtures do the same.
    """
    with ExitStack() as stack:
        url = stack.enter_context(fresh(server or stack.enter_context(serving())))
        prepare(url)
        yield url


@contextmanager
def fresh(server: str) -> Iterator[str]:
    """Create a database of a name that no other run has; drop it at the end."""
    name = f"fastq_test_{os.getpid()}_{secrets.token_hex(4)}"
    try:
        _run(server, f'create database "{name}"')
    except db.Error as error:
        if error.sqlstate != DENIED:
            raise
        raise ConfigError(
            "the role of the server for tests may not create databases: let it (alter role NAME createdb), or write a fixture "
            "fastq_database_url of scope session that returns the URL of a database of tests"
        ) from error
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        _run(server, f'drop database if exists "{name}" with (force)')


@contextmanager
def kept() -> Iterator[None]:
    """Close the sessions and clients of this process at the end of its tests."""
    try:
        yield
    finally:
        while _clients:
            _clients.popitem()[1].close()
        while _sessions:
            _sessions.popitem()[1].close()


def kept_session(config: Config) -> Connection:
    """Return the session of a database; another one if that was lost."""
    key = config.database_url, config.schema
    connection = _sessions.get(key)
    if connection is None or not connection.usable:
        connection = _sessions[key] = session(config)
    return connection


def kept_client(config: Config) -> Client:
    """Return the client of a database."""
    key = config.database_url, config.schema
    return _clients.get(key) or _clients.setdefault(key, Client(config=config))


@contextmanager
def emptied(config: Config) -> Iterator[None]:
    """Leave nothing in a database."""
    try:
        yield
    finally:
        empty(kept_session(config))


def _drop_forgotten(server: str) -> None:
    """Drop the databases of runs that were killed: their processes are on this machine, as the server is."""
    names = [name for (name,) in _run(server, "select datname from pg_catalog.pg_database")]
    for name in names:
        found = NAME.fullmatch(name)
        if found and not _lives(int(found[1])):
            _run(server, f'drop database if exists "{name}" with (force)')


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _run(server: str, text: str) -> list[tuple[Any, ...]]:
    connection = db.connect(server, role="test", prepare=False, timeout=60.0)
    try:
        return connection.execute(text)
    finally:
        connection.close()
