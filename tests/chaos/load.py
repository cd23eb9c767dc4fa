"""Work for leaders, as long as it is wanted: jobs that come due, jobs of processes that are gone. A thread of the harness.

It goes on when the database does not answer; what it enqueues is not accounted for (run.py does that).
"""

import random
import threading
from contextlib import suppress
from typing import Self

import psycopg

from fastq.enqueue.client import Client
from fastq.errors import FastqError
from tests.chaos.app import Nap

PACE = 0.05  # s between two helpings
ORPHANS = """
with gone as (
    insert into fastq.process (id, host, pid, supervisor, queues, expires_at)
    values (nextval('fastq.process_number') + 63, 'gone', 1, 'gone:1:gone', 'default', clock_timestamp() + interval '1 s')
    returning id
)
insert into fastq.job (kind, args, state, attempt, claim, attempted_at)
select 'chaos_nap', '{"seconds": 0, "failures": 0}', 'running', 1, id << 32, clock_timestamp() from gone, generate_series(1, 5)"""
"""A process that nobody has ever seen dies in a second, and leaves some jobs. Its number is the last of a host's 64."""


class Load:
    """`scheduled` jobs a second that come due within half a second, and helpings of orphans, four a second, if wanted."""

    def __init__(self, url: str, scheduled: int = 60, *, orphans: bool = False) -> None:
        self._url = url
        self._count = max(1, round(scheduled * PACE))
        self._orphans = orphans
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with (
                suppress(psycopg.Error, FastqError),
                Client(self._url) as client,
                psycopg.connect(self._url, autocommit=True) as raw,
            ):
                self._feed(client, raw)
            self._stopping.wait(PACE)

    def _feed(self, client: Client, raw: psycopg.Connection) -> None:
        dice = random.Random(7)
        for helping in range(1_000_000):
            if self._stopping.wait(PACE):
                return
            client.enqueue_many([Nap(0.0)] * self._count, delay=dice.uniform(0.05, 0.5))
            if self._orphans and helping % 5 == 0:
                raw.execute(ORPHANS)
