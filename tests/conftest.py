"""One Postgres for the session and a fresh, migrated database for each test that asks for one.

FASTQ_TEST_POSTGRES=16     use the other embedded version (18 by default)
FASTQ_TEST_DATABASE_URL    use this server instead: a URL with the right to create databases
"""

import fcntl
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest

from fastq.errors import FastqError
from fastq.events import Event, subscribe
from fastq.postgres import embedded
from tests.full_queue import FullQueue
from tests.helpers import create_database, drop_database, execute, process_exists

FOLDERS = "fastq-test"  # a server's folder is named fastq-test-PID-RANDOM
MEMORY, DISK = Path("/dev/shm"), Path("/tmp")
MEMORY_FREE = 4 * 2**30  # bytes; the suite leaves less than 1 GB
SETTINGS = {
    "fsync": "off",  # these databases need not survive the machine; they do survive a killed server
    "max_connections": "200",  # the tests of many processes
    "max_prepared_transactions": "4",  # of an application's; 0 by default
}
SMALL_QUEUE = 17  # the first version that can be told how long its queue of notifications may be
DATABASE_URL = os.environ.get("FASTQ_TEST_DATABASE_URL", "")
VERSION = int(os.environ.get("FASTQ_TEST_POSTGRES", "18"))
numbers = itertools.count(1)

# An example that takes long says that the machine is busy. What a test finds out does not hang on that.
hypothesis.settings.register_profile("fastq", deadline=None)
hypothesis.settings.load_profile("fastq")

# What started the tests (nohup, a script's `&`) may have them ignored, and every program that a test starts would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a server, for `make unit` to leave out: those that ask for one, or for what is made of one."""
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker("server")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the FASTQ_* variables of whoever runs the tests, but for FASTQ_CODEC: all of them pass with either codec."""
    for name in [name for name in os.environ if name.startswith("FASTQ_") and name != "FASTQ_CODEC"]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Give the URL of a server to create databases on."""
    if DATABASE_URL:
        yield DATABASE_URL
        return
    remove_folders_of_killed_sessions()
    # A fresh database is 300 new files: 12 ms in memory, up to 280 ms on the disk of a virtual machine.
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}-{os.getpid()}-", dir=MEMORY if in_memory else DISK))
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    settings = SETTINGS | ({"max_notify_queue_pages": "64"} if VERSION >= SMALL_QUEUE else {})  # the least: half a megabyte
    with embedded.start(folder, VERSION, settings) as started:
        yield started.url
    shutil.rmtree(folder)


@pytest.fixture
def empty_database(server: str) -> Iterator[str]:
    """Give the URL of a fresh database without a schema."""
    name = f"fastq_test_{os.getpid()}_{next(numbers)}"
    yield create_database(server, name)
    drop_database(server, name)


@pytest.fixture(scope="session")
def migrated_template(server: str) -> Iterator[str]:
    """Give the name of a migrated database to copy; nobody connects to it once it is made."""
    from fastq.schema.migrate import migrate  # late, so that tests without a schema do not depend on it

    name = f"fastq_test_{os.getpid()}_template"
    migrate(create_database(server, name))
    yield name
    drop_database(server, name)


@pytest.fixture
def database(server: str, migrated_template: str) -> Iterator[str]:
    """Give the URL of a fresh, migrated database."""
    name = f"fastq_test_{os.getpid()}_{next(numbers)}"
    yield create_database(server, name, migrated_template)
    drop_database(server, name)


@pytest.fixture
def full_queue(server: str) -> Iterator[Callable[[], FullQueue]]:
    """Give a function that fills the server's queue of notifications, which ends with the test."""
    if DATABASE_URL or VERSION < SMALL_QUEUE:
        pytest.skip("it takes a server whose queue is small")
    made: list[FullQueue] = []

    def fill() -> FullQueue:
        made.append(FullQueue(server))
        return made[-1]

    yield fill
    for queue in made:
        queue.empty()
    execute(server, "select pg_notification_queue_usage()")  # for whoever comes next


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """Give the events of this process that the test causes, as they come."""
    heard: list[Event] = []
    unsubscribe = subscribe(heard.append)
    yield heard
    unsubscribe()


def remove_folders_of_killed_sessions() -> None:
    """Stop and remove what sessions that were killed left behind."""
    with (Path(tempfile.gettempdir()) / f"{FOLDERS}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another session is at it
        with suppress(FastqError, OSError):  # what cannot be removed today may be tomorrow
            _remove_folders()


def _remove_folders() -> None:
    for folder in (*MEMORY.glob(f"{FOLDERS}-[0-9]*"), *DISK.glob(f"{FOLDERS}-[0-9]*")):
        if folder.stat().st_uid == os.geteuid() and not process_exists(int(folder.name.split("-")[2])):
            version = folder / "data" / "PG_VERSION"
            if version.exists():
                embedded.start(folder, int(version.read_text())).stop()
            shutil.rmtree(folder, ignore_errors=True)
