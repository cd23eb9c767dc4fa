"""Have an operation retry many discarded jobs while others are worked, and count what these lose by it.

A host of two processes works plain jobs that take a moment of a core (spinning.py), as fast as it can, or so many a second
(`--rate`). The operation's jobs come to a queue that is paused, so the plain jobs meet the operation alone and not the jobs
that it brings back. The rate of the plain jobs is counted by the completions of each second, before, during and after. The
first operation is ended in its middle; a second one does the rest. Then each job is looked at: it lives, is available in its
queue, has its id, its args and one attempt more to go, and is neither in the archive nor among the dead letters; those whose
unique key another job holds are as they were.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from statistics import mean, median
from typing import TYPE_CHECKING, NamedTuple

from bench.scale.filling import TRACE, emptied
from bench.scale.ground import Ground, session
from fastq import Client, admin
from fastq.schema.migrate import migrate
from fastq.schema.partitions import ensure_partitions, partitions

if TYPE_CHECKING:
    from fastq.config import Config

WORDS = "kind:again state:discarded"
WARM, WINDOW = 8, 20
"""Seconds before anything is counted, and of each window without an operation."""

FAILED = """
insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts,
    crashes, queue, kind, args, errors, meta)
select n, ended_at - interval '1 minute', ended_at - interval '1 s', ended_at, 'discarded', 1 + n % 4, 25, 25, 0,
    'again', 'again',
    format('{"account": %s}', n)::json, jsonb_build_array(jsonb_build_object('attempt', 25, 'at', ended_at, 'error',
        'ConnectionError: refused', 'trace', $2::text)),
    case when n % 100 = 0 then jsonb_build_object('cause', 'failed', 'unique',
        jsonb_build_array(encode(sha256(n::text::bytea), 'hex'), 'end', null))
        else '{"cause": "failed"}'::jsonb end
from (select n, now() - ($1::bigint - n) * (interval '1 hour' / $1::float8) - interval '1 minute' as ended_at
    from generate_series(1::bigint, $1::bigint) as n) as given
"""
DEAD = """
insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error, meta)
select id, finalized_at, priority, max_attempts, queue, kind, 'failed', args, errors -> -1 ->> 'error', meta
    from fastq.job_archive where state = 'discarded'
"""
PLAIN = """
insert into fastq.job (id, kind, args) overriding system value
select $2::bigint + n, 'bench.noop', format('{"number":%s}', n)::json from generate_series(1::bigint, $1::bigint) as n
"""
HOLDERS = """
insert into fastq.unique_key (key, job_id, since, until) select sha256(n::text::bytea), $2::bigint, now(), 'time'
    from generate_series(1000, $1::bigint, 1000) as n
"""
COUNTED = "select n_tup_del from pg_stat_user_tables where schemaname = 'fastq' and relname = 'job'"
RIGHT = """
select count(*) filter (where job.id is not null and ended.id is null and dead.id is null and job.state = 'available'
    and job.queue = 'again'
        and job.attempt = 25 and job.max_attempts = 26 and job.priority = 1 + given.id % 4
            and (job.args ->> 'account')::bigint = given.id),
    count(*) filter (where job.id is null and ended.id is not null and dead.id is not null),
    count(*) filter (where (job.id is null) = (ended.id is null))
from generate_series(1::bigint, $1::bigint) as given (id)
left join fastq.job on job.id = given.id and job.kind = 'again'
left join fastq.job_archive as ended on ended.id = given.id and ended.kind = 'again'
left join fastq.dead on dead.id = given.id
"""


class Seconds(NamedTuple):
    """The counts of a second: plain jobs that were completed, jobs that the operation changed."""

    plain: float
    changed: float


class Watch(threading.Thread):
    """Reads the counts each second, until it is stopped."""

    def __init__(self, config: Config) -> None:
        super().__init__(daemon=True)
        self.seconds: list[Seconds] = []
        self._connection = session(config)
        self._stopping = threading.Event()

    def run(self) -> None:
        before = self._read()
        while not self._stopping.wait(1.0):
            now = self._read()
            length = now[0] - before[0]
            self.seconds.append(Seconds((now[1] - before[1]) / length, (now[2] - before[2]) / length))
            before = now

    def stop(self) -> None:
        """Stop, and close the session."""
        self._stopping.set()
        self.join()
        self._connection.close()

    def _read(self) -> tuple[float, int, int]:
        self._connection.execute("select pg_stat_clear_snapshot()")
        [(plain,)] = self._connection.execute(COUNTED)
        [(changed,)] = self._connection.execute("select coalesce(sum(done), 0)::bigint from fastq.operation")
        return time.monotonic(), int(plain), int(changed)


def measure(ground: Ground, config: Config, rate: int) -> bool:
    """Fill, work, retry, and tell; return whether each row is right."""
    jobs = ground.finished
    if "bulk" not in ground.filled:
        prepare(ground, config, rate)
    environment = os.environ | {"FASTQ_DATABASE_URL": config.database_url, "FASTQ_LOG_LEVEL": "warning"}
    host = subprocess.Popen(
        [sys.executable, "-m", "fastq", "run", "bench.scale.spinning:registry", "--procs", "2"], env=environment
    )
    watch, feeding = Watch(config), threading.Event()
    feeder = threading.Thread(target=feed, args=(config, rate, feeding), daemon=True)
    try:
        with Client(config=config) as client:
            if rate:
                feeder.start()
            led(client, config)
            watch.start()
            time.sleep(WARM)
            windows = [window(watch, lambda: time.sleep(WINDOW), "before")]
            first = client.jobs.retry(WORDS, by="bench")
            windows.append(window(watch, lambda: until(client, first.id, int(jobs * 0.4)), "during the first operation"))
            client.jobs.cancel_operation(first.id)
            ended = until(client, first.id, None)
            print(f"  ended in its middle: {ended.state}, {ended.done:,} done; {living(config):,} of its jobs live")
            windows.append(window(watch, lambda: time.sleep(WINDOW), "between"))
            second = client.jobs.retry(WORDS, by="bench")
            windows.append(window(watch, lambda: until(client, second.id, None), "during the second operation"))
            last = client.jobs.operation(second.id)
            print(f"  the rest: {last.state}, {last.done:,} done, skipped {last.skipped}")
            windows.append(window(watch, lambda: time.sleep(WINDOW), "after"))
            whole = ended.state == "cancelled" and ended.done + last.done + last.skipped.get("held", 0) == jobs
    finally:
        feeding.set()
        watch.stop()
        host.terminate()
        host.wait()
    slower(windows)
    return rows_are_right(config, jobs, last.skipped.get("held", 0)) and whole


def prepare(ground: Ground, config: Config, rate: int) -> None:
    """Make the discarded jobs, and the plain ones, unless they are to be enqueued at a rate."""
    jobs, plain = ground.finished, 0 if rate else ground.living
    migrate(config.database_url)
    connection = session(config)
    ensure_partitions(connection, days_ahead=1)
    connection.execute(FAILED, jobs, TRACE)
    emptied(connection, "dead", DEAD)
    connection.execute("select setval('fastq.job_id_seq', $1::bigint)", 10 * jobs)
    connection.execute(HOLDERS, jobs, 5 * jobs)
    emptied(connection, "job", PLAIN, plain, 10 * jobs)
    connection.execute("select setval('fastq.job_id_seq', $1::bigint)", 10 * jobs + plain + 1)
    admin.pause_queue(connection, "again")
    for name in partitions(connection):
        connection.execute(f"vacuum (analyze) fastq.{name}")
    connection.execute("analyze")
    connection.execute("checkpoint")
    connection.close()
    ground.note("bulk")


def feed(config: Config, rate: int, ending: threading.Event) -> None:
    """Enqueue so many plain jobs a second."""
    from fastq.bench.app import NoopArgs  # noqa: PLC0415 - the app of the measurement

    with Client(config=config) as client:
        began, made = time.monotonic(), 0
        while not ending.wait(0.02):
            wanted = int((time.monotonic() - began) * rate) - made
            if wanted > 0:
                client.enqueue_many([NoopArgs(number) for number in range(wanted)])
                made += wanted


def led(client: Client, config: Config) -> None:
    """Wait until somebody leads."""
    connection = session(config)
    give_up = time.monotonic() + 60
    while not connection.execute("select 1 from fastq.lease where name = 'schema' and expires_at > clock_timestamp()"):
        assert time.monotonic() < give_up, "nobody leads"
        time.sleep(0.2)
    connection.close()
    client.jobs.operations()


def until(client: Client, number: int, done: int | None) -> admin.bulk.OperationRow:  # type: ignore[name-defined]
    """Wait until an operation has changed so many jobs, or has ended."""
    while True:
        row = client.jobs.operation(number)
        if row.ended_at or (done is not None and row.done >= done):
            return row
        time.sleep(0.05)


def window(watch: Watch, do: object, name: str) -> tuple[str, list[Seconds]]:
    """Do something, and return the whole seconds in which it happened."""
    first = len(watch.seconds) + 1
    do()  # type: ignore[operator]
    seconds = watch.seconds[first:]
    plain, changed = [one.plain for one in seconds] or [0.0], [one.changed for one in seconds] or [0.0]
    told = (
        f"; changed {mean(changed):7,.0f} a second, {min(changed):,.0f} to {max(changed):,.0f}, median {median(changed):,.0f}"
        if any(changed)
        else ""
    )
    print(
        f"  {name:28} {len(seconds):3} s: plain {mean(plain):7,.0f} a second, from {min(plain):,.0f} to {max(plain):,.0f}{told}",
        flush=True,
    )
    return name, seconds


def slower(windows: list[tuple[str, list[Seconds]]]) -> None:
    """Print how much slower the plain jobs were, beside the windows before and after each operation."""
    for at in (1, 3):
        around = mean(one.plain for _, seconds in (windows[at - 1], windows[at + 1]) for one in seconds)
        name, seconds = windows[at]
        if around and seconds:
            print(f"  {name}: plain jobs {100 * (1 - mean(one.plain for one in seconds) / around):+.1f} % slower than around it")


def living(config: Config) -> int:
    """Count the jobs of the operation that live."""
    connection = session(config)
    [(count,)] = connection.execute("select count(*) from fastq.job where kind = 'again'")
    connection.close()
    return int(count)


def rows_are_right(config: Config, jobs: int, held: int) -> bool:
    """Look at each job."""
    connection = session(config)
    connection.execute("set work_mem = '256MB'")
    [(right, left, wrong)] = connection.execute(RIGHT, jobs)
    connection.close()
    whole = right + left == jobs and left == held == jobs // 1000 and wrong == 0
    print(f"  each row: {right:,} available with one attempt more, {left:,} as they were since another job holds their key, "
          f"{jobs - right - left:,} otherwise: {'right' if whole else 'WRONG'}")  # fmt: skip
    return whole
