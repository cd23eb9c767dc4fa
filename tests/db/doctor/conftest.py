"""A server whose settings a test may change, and a healthy database on it in which a test makes one thing ill."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from fastq.admin import doctor
from fastq.postgres import embedded
from fastq.schema.migrate import migrate
from fastq.schema.partitions import ensure_partitions
from tests.conftest import DATABASE_URL, DISK, FOLDERS, MEMORY, VERSION
from tests.db.jobs import session
from tests.db.leases import configured, lead
from tests.helpers import create_database, drop_database, execute

SETTINGS = {
    "max_connections": "40",  # few enough to use them all up
    "max_prepared_transactions": "4",
    "wal_level": "logical",  # for a slot that keeps rows
    **({"max_notify_queue_pages": "64"} if VERSION >= 17 else {}),  # the least: half a megabyte
}
PROCESS = (
    "insert into fastq.process (id, host, pid, supervisor, queues, kinds, expires_at) "
    "values (1, 'here', 1, 'here:2:x', 'default', '{nap}', clock_timestamp() + interval '1 hour')"
)
numbers = itertools.count(1)


def pytest_collection_modifyitems(items):
    """Mark these tests as some that need a server: they have another one than most."""
    for item in items:
        if "clinic" in getattr(item, "fixturenames", ()):
            item.add_marker("server")


@pytest.fixture(scope="session")
def clinic():
    """Give the URL of a server that is these tests' own."""
    if DATABASE_URL:
        pytest.skip("it takes a server of the tests' own, to change its settings")
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}-{os.getpid()}-", dir=MEMORY if MEMORY.is_dir() else DISK))
    folder.chmod(0o711)
    with embedded.start(folder, VERSION, SETTINGS) as started:
        yield started.url
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def healthy_template(clinic):
    """Give the name of a database to copy in which all is well: migrated, led, worked, with the archive's days ahead."""
    name = "fastq_test_healthy"
    url = create_database(clinic, name)
    migrate(url)
    connection = session(url)
    ensure_partitions(connection)
    for lease in ("leader:default", "schema"):
        lead(connection, lease, ttl=86_400.0)
    connection.execute(PROCESS)
    connection.close()
    return name


@pytest.fixture
def database(clinic, healthy_template):
    """Give the URL of a fresh database in which all is well."""
    name = f"fastq_test_patient_{next(numbers)}"
    url = create_database(clinic, name, healthy_template)
    execute(url, f"alter database {name} set idle_in_transaction_session_timeout = '10min'")
    yield url
    drop_database(clinic, name)


@pytest.fixture
def found(database):
    """Give a function that asks one check and returns its findings that are not ok; the subjects are their keys."""

    def ask(check, url=None, **settings):
        config = configured(procs=1, **settings)
        findings = doctor.examine(config, url or database, [check]).findings
        assert {finding.check for finding in findings} == {check}
        return {finding.subject: finding for finding in findings if finding.level != "ok"}

    return ask


@pytest.fixture
def set_server(clinic):
    """Give a function that sets a setting of the whole server, until the end of the test."""
    names = []

    def change(name, value):
        names.append(name)
        execute(clinic, f"alter system set {name} = {value}")
        execute(clinic, "select pg_reload_conf()")

    yield change
    for name in names:
        execute(clinic, f"alter system reset {name}")
    execute(clinic, "select pg_reload_conf()")


@pytest.fixture
def role(clinic):
    """Give the name of a role without any right."""
    name = f"test_{os.getpid()}_patient"
    execute(clinic, f"create role {name} login")
    yield name
    for (database,) in execute(clinic, "select datname from pg_database where datallowconn and datname <> 'template0'"):
        execute(clinic.replace("/postgres?", f"/{database}?"), f"drop owned by {name}")
    execute(clinic, f"drop role {name}")
