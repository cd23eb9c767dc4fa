"""A real PgBouncer in transaction mode in front of a database, for the tests of what goes through one.

It listens on loopback and lets everybody in. Its pool is smaller than the number of sessions that a supervisor opens, so
that they do share the server's, and whatever one of them leaves behind (a setting, a prepared statement, a channel that it
listens to, an advisory lock) gets into the way of another, and stays to be found by `leftovers`.
"""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.helpers import wait_for

POOL_SIZE = 3
ITS_OWN = {"application_name", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "IntervalStyle"}
"""Settings that PgBouncer itself carries from one client to the next."""

LEFTOVERS = """
select 'setting ' || name || ' = ' || setting from pg_settings where source = 'session' and not name = any (%s)
union all select 'prepared ' || statement from pg_prepared_statements
union all select 'listens to ' || pg_listening_channels()
union all select 'holds ' || locktype || ' lock' from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'
union all select 'temporary ' || relname from pg_class where relpersistence = 't'
"""


@contextmanager
def pgbouncer(url: str, folder: Path, **others: str) -> Iterator[str]:
    """Start one in front of a database and give the URL that leads through it; the test is skipped where there is none.

    The others are settings of its own, over these.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("no pgbouncer on this machine: apt-get install pgbouncer")
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    parts.setdefault("user", "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    target = " ".join(f"{name}={value}" for name, value in parts.items() if name in {"host", "port", "user", "password"})
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": POOL_SIZE,
        "max_client_conn": 200,
        **others,
    }
    lines = ["[databases]", f"{parts['dbname']} = {target} dbname={parts['dbname']}", "[pgbouncer]"]
    file = folder / "pgbouncer.ini"
    file.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items())]) + "\n")
    command = [program, *(["-u", "nobody"] if os.geteuid() == 0 else []), "pgbouncer.ini"]  # it refuses to be root
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    through = f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}"
    try:
        wait_for(lambda: _answers(through, process), 10, f"PgBouncer; see {folder / 'pgbouncer.log'}")
        yield through
    finally:
        process.terminate()  # at once, whoever is connected
        process.wait(10)


def leftovers(through: str) -> set[str]:
    """Return what is left in the sessions that the pool holds: all of them, since each serves one transaction here."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(psycopg.connect(through, prepare_threshold=None)) for _ in range(POOL_SIZE)]
        sessions = {connection.execute("select pg_backend_pid()").fetchone() for connection in connections}
        assert len(sessions) == POOL_SIZE
        return {row[0] for connection in connections for row in connection.execute(LEFTOVERS, [list(ITS_OWN)])}


def _answers(through: str, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "PgBouncer has ended"
    try:
        psycopg.connect(through, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
