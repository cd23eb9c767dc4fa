"""What a job waits for between its commit and its work, one hop at a time: `python -m bench.hops [TIMES]`.

On an idle machine a job's latency is a chain of wake-ups: the commit's notification wakes the supervisor, a byte in a pipe
wakes a producer, the claim wakes a backend and its answer the producer, a lock wakes an executor. Each is measured alone
here, after a rest like the one between two jobs, when caches are cold and cores asleep; how much of the claim is the disk
shows by the same claim with synchronous_commit off. `fastq bench` measures the whole. Works in the schema `fastq_adr` of
FASTQ_DATABASE_URL or of an embedded Postgres; server and client must be on one machine.
"""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from bench.adr.measure import NUMBER, SCHEMA, database
from fastq.postgres import db
from fastq.schema.migrate import migrate

TIMES = 200
REST = 0.02  # s between two: the mean of what `fastq bench` leaves between two jobs
ECHO = "import sys, time\nwhile sys.stdin.buffer.read(1): print(time.monotonic_ns(), flush=True)"


def hop(name: str, samples: Iterator[int]) -> None:
    """Print the median and the ninth decile of some times in nanoseconds."""
    times = sorted(samples)
    print(f"  {name:58s} {statistics.median(times) / 1e6:6.3f} ms  (p90 {times[len(times) * 9 // 10] / 1e6:.3f})", flush=True)


def rested(times: int, work: Callable[[], int]) -> Iterator[int]:
    """Do something again and again, each time after a rest."""
    for _ in range(times):
        time.sleep(REST)
        yield work()


def took(work: Callable[[], object]) -> int:
    """Return the nanoseconds that something takes."""
    began = time.monotonic_ns()
    work()
    return time.monotonic_ns() - began


def notification(url: str, connection: db.Connection) -> Callable[[], int]:
    """Measure from the end of a commit to its notification in another session."""
    listener, heard = db.connect(url, role="hops", schema=SCHEMA), threading.Semaphore(0)
    listener.listen("fastq_hops")
    at: list[int] = []

    def listen() -> None:
        with suppress(db.Error):  # the server ends before us
            while True:
                for _ in listener.notifications(None):
                    at.append(time.monotonic_ns())
                    heard.release()

    threading.Thread(target=listen, daemon=True).start()

    def work() -> int:
        connection.execute("notify fastq_hops")
        committed = time.monotonic_ns()
        heard.acquire()
        return at[-1] - committed

    return work


def pipe() -> Callable[[], int]:
    """Measure from a write to a pipe to the process that waits at its other end."""
    echo = subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert echo.stdin is not None
    assert echo.stdout is not None
    ask, answer = echo.stdin, echo.stdout

    def work() -> int:
        sent = time.monotonic_ns()
        ask.write(b"!")
        return int(answer.readline()) - sent

    return work


def claim(url: str, connection: db.Connection, synchronous: str) -> Callable[[], int]:
    """Measure a claim that finds one job, on a session that does nothing else."""
    producer = db.connect(url, role="hops", schema=SCHEMA)
    producer.execute(f"set synchronous_commit = {synchronous}")
    numbers = [NUMBER.pack(number) for number in (1 << 32, 0, 0, 0, 0, 16, *[2**62] * 4)]
    numbers.insert(1, b"default")

    def work() -> int:
        connection.execute(f"delete from {SCHEMA}.job")
        connection.execute(f"insert into {SCHEMA}.job (kind, args) values ('noop', '{{}}')")
        time.sleep(REST)
        return took(lambda: producer.run_blobs("job_claim", numbers))

    return work


def lock() -> Callable[[], int]:
    """Measure from the release of a lock to the thread that waits for it."""
    gate, done, at = threading.Semaphore(0), threading.Semaphore(0), [0]

    def wait() -> None:
        while True:
            gate.acquire()
            at[0] = time.monotonic_ns()
            done.release()

    threading.Thread(target=wait, daemon=True).start()

    def work() -> int:
        released = time.monotonic_ns()
        gate.release()
        done.acquire()
        return at[0] - released

    return work


def main(times: int) -> None:
    with database() as url:
        connection = db.connect(url, role="hops", schema=SCHEMA, timeout=60.0)
        connection.execute("set client_min_messages = warning")
        connection.execute(f"drop schema if exists {SCHEMA} cascade")
        migrate(url, SCHEMA)
        [(version,)] = connection.execute("show server_version")
        python = sys.version.split()[0]
        print(f"Postgres {version}, Python {python}, {os.cpu_count()} cores, {times} times, {REST * 1e3:.0f} ms apart")
        hop("commit returned -> notified in another session", rested(times, notification(url, connection)))
        hop("byte into a pipe -> another process awake", rested(times, pipe()))
        hop("claim of one job", rested(times, claim(url, connection, "on")))
        hop("  the same, not waiting for the disk", rested(times, claim(url, connection, "off")))
        hop("  an empty statement", rested(times, lambda: took(lambda: connection.run_blobs("snapshot", []))))
        hop("lock released -> another thread awake", rested(times, lock()))
        connection.execute(f"drop schema {SCHEMA} cascade")
        connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES)
