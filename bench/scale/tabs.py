"""Open tabs of the dashboard over real connections, while jobs are worked: what none, one and ten of them cost.

`fastq web` serves; each tab is a connection of its own that follows a page as the script of the dashboard does. CPU is that of
the web process with its threads, and of its sessions in Postgres, in per cent of one core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from bench.scale.bulk import feed
from bench.scale.ground import Ground, session
from fastq.bench.cost import tree_seconds
from fastq.postgres.db import Connection
from fastq.schema.migrate import migrate
from fastq.web import Viewer

if TYPE_CHECKING:
    from fastq.config import Config

PAGES = ("/", "/jobs", "/queues", "/hosts", "/dead", "/gates", "/workflows", "/periodic", "/leaders", "/singletons")
ROUNDS = 2
SESSIONS = "select pid from pg_stat_activity where application_name = 'fastq admin'"


def anybody(_: object) -> Viewer:
    """Let everybody look; the server listens on the loopback alone."""
    return Viewer("bench")


class Tab(threading.Thread):
    """A browser's stream of one page."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.events = self.bytes = 0
        self._answer = urllib.request.urlopen(
            urllib.request.Request(address, headers={"Accept": "text/event-stream"}), timeout=60
        )

    def run(self) -> None:
        try:
            for line in self._answer:
                self.bytes += len(line)
                self.events += line == b"\n"
        except (OSError, ValueError, AttributeError):
            return  # closed

    def close(self) -> None:
        """Leave the page."""
        self._answer.fp.raw._sock.shutdown(2)  # type: ignore[union-attr]  # noqa: SLF001 - nothing else ends a read that waits
        self.join()
        self._answer.close()


def measure(ground: Ground, config: Config, rate: int, seconds: float) -> None:
    """Serve, and open tabs in turns."""
    del ground
    migrate(config.database_url)
    environment = os.environ | {"FASTQ_DATABASE_URL": config.database_url, "FASTQ_LOG_LEVEL": "warning"}
    host = subprocess.Popen([sys.executable, "-m", "fastq", "run", "fastq.bench.app:registry", "--procs", "1"], env=environment)
    words = [
        sys.executable,
        "-m",
        "fastq",
        "web",
        "--auth",
        "bench.scale.tabs:anybody",
        "--app-dir",
        str(Path(__file__).parents[2]),
        "--port",
        "0",
    ]
    web = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    ending = threading.Event()
    feeder = threading.Thread(target=feed, args=(config, rate, ending), daemon=True)
    connection = session(config)
    try:
        assert web.stdout is not None
        place = web.stdout.readline().strip().rstrip("/")
        feeder.start()
        time.sleep(5)
        for _ in range(ROUNDS):
            for name, paths in (
                ("none", ()),
                ("one, the overview", ("/",)),
                ("ten, the overview", ("/",) * 10),
                ("ten, ten pages", PAGES),
            ):
                one(connection, web.pid, name, [place + path for path in paths], seconds)
    finally:
        ending.set()
        connection.close()
        for process in (web, host):
            process.terminate()
            process.wait()


def one(connection: Connection, pid: int, name: str, addresses: list[str], seconds: float) -> None:
    """Open tabs for so long, and print what they cost."""
    tabs = [Tab(address) for address in addresses]
    for tab in tabs:
        tab.start()
    time.sleep(3)
    before, began = spent(connection, pid), time.monotonic()
    told = sum(tab.events for tab in tabs)
    time.sleep(seconds)
    after, length = spent(connection, pid), time.monotonic() - began
    told = sum(tab.events for tab in tabs) - told
    for tab in tabs:
        tab.close()
    own = after[0] - before[0]
    server = sum(cpu - before[1].get(session_pid, 0.0) for session_pid, cpu in after[1].items())
    print(f"  {name:18}: web {100 * own / length:5.2f} %, its sessions of Postgres {100 * server / length:5.2f} % of a core; "
          f"{told / max(1, len(tabs)):.0f} events in each tab", flush=True)  # fmt: skip
    time.sleep(1)


def spent(connection: Connection, pid: int) -> tuple[float, dict[int, float]]:
    """Return the CPU seconds of the web process, and those of each of its sessions."""
    return tree_seconds(pid), {int(number): tree_seconds(int(number)) for (number,) in connection.execute(SESSIONS)}
