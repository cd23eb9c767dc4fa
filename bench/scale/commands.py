"""Ask what programs and shells ask: the functions of a client, the commands, and the metrics of a host.

Commands are processes of their own: `fastq version` tells how long one takes that asks nothing.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.scale import filling
from bench.scale.ground import Ground, session
from fastq import Client

if TYPE_CHECKING:
    from fastq.config import Config

ROUNDS = 5
LINES = (
    "version", "top --once --json", "doctor", "queues list", "gates list", "gates held", "unique list", "stats",
    "stats --by kind", "dead list", "jobs list", "jobs count state:discarded since:1d", "periodic list", "workflows list",
    "leader", "jobs why {}", "jobs show {}",
)  # fmt: skip


def measure(ground: Ground, config: Config) -> None:
    """Ask, and print how long each answer takes."""
    asked_of_a_client(ground, config)
    connection = session(config)
    [(living,)] = connection.execute(
        "select id from fastq.job where seq is not null and state = 'available' order by id desc limit 1"
    )
    connection.close()
    environment = os.environ | {"FASTQ_DATABASE_URL": config.database_url, "NO_COLOR": "1"}
    for line in LINES:
        for job in (living, filling.needle_id(ground)) if "{}" in line else (0,):
            words = [sys.executable, "-m", "fastq", *line.format(job).split()]
            told = lambda words=words: subprocess.run(words, env=environment, capture_output=True, text=True, check=False)  # noqa: E731
            timed(
                f"fastq {' '.join(words[3:])}",
                told,
                lambda done: f"exit {done.returncode}, {len(done.stdout):,} bytes {done.stderr[:80]!r}",
            )
    metrics(config, environment)


def timed(name: str, do: Callable[[], object], say: Callable[..., str]) -> None:
    """Do something several times, and print the time that it takes."""
    took, told = [], None
    for _ in range(ROUNDS):
        began = time.monotonic()
        told = do()
        took.append(time.monotonic() - began)
        if took[-1] > 3:
            break
    print(f"  {median(took) * 1e3:7.0f} ms, worst {max(took) * 1e3:7.0f} ms  {name}: {say(told)}", flush=True)


def asked_of_a_client(ground: Ground, config: Config) -> None:
    """Ask a client."""
    needle = filling.needle_id(ground)
    with Client(config=config) as client:
        timed("client.jobs.count('')", lambda: client.jobs.count(""), str)
        timed("client.jobs.count('state:available')", lambda: client.jobs.count("state:available"), str)
        timed(
            "client.jobs.count('kind:none')",
            lambda: client.jobs.count("kind:none"),
            lambda told: f"{told}, back to {told.looked_until}",
        )
        timed("client.jobs.complete('kind:')", lambda: client.jobs.complete("kind:"), lambda told: f"{len(told)} words")
        timed("client.living()", client.living, lambda told: f"{len(told)} queues")
        timed("client.stats()", client.stats, lambda told: f"{len(told)} rows")
        timed(
            "client.stats(by='kind', step='minute')",
            lambda: client.stats(by="kind", step="minute"),
            lambda told: f"{len(told)} rows",
        )
        timed("client.get(NEEDLE)", lambda: client.get(needle), lambda told: str(told and told.state))
        timed(
            "client.dead()",
            client.dead,
            lambda told: f"{sum(group.jobs for group in told.groups):,} jobs, back to {told.searched_to}",
        )


def metrics(config: Config, environment: dict[str, str]) -> None:
    """Start a host of a queue without jobs, which leads, and scrape it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = f"{Path(__file__).stem}:registry"
    words = [
        sys.executable,
        "-m",
        "fastq",
        "run",
        app,
        "--app-dir",
        str(Path(__file__).parent),
        "--queue",
        "idle",
        "--procs",
        "1",
    ]
    host = subprocess.Popen(
        words, env={**environment, "FASTQ_HEALTH": f"127.0.0.1:{port}"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def told() -> bool:
        try:
            return 'queue="mails"' in scrape()
        except OSError:
            return False

    try:
        give_up = time.monotonic() + 120
        while not told() and time.monotonic() < give_up:
            time.sleep(0.5)
        timed("/metrics of the leading host", scrape, lambda text: f"{len(text):,} bytes, queues in it: {told()}")
        connection = session(config)
        for name, took in connection.execute("select name, took from fastq.chore where took > 0.1 order by took desc"):
            print(f"  {took * 1e3:7.0f} ms  the last run of the leader's chore {name}")
        connection.close()
    finally:
        host.terminate()
        host.wait()


from fastq import Registry  # noqa: E402 - of the app that the host runs

registry = Registry()
