"""The leader's chores: promote due jobs, rescue the jobs of hosts that are gone, keep the archive's partitions.

A thread of the supervisor with its own connection; worker processes never lead. It holds the lease of the domain while it
can and does the chores only while it holds it. For now the lease is one row taken and renewed by one statement.

Promote sleeps until the next job is due (the statement says when), at most IDLE seconds, and is woken by the hint that somebody
scheduled one. Chores are safe to do twice: locked rows are skipped, and each statement re-checks what it changes.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from fastq import db, partitions
from fastq.errors import DatabaseUnavailable
from fastq.events import emit
from fastq.outcome import error_json

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.db import Connection

DOMAIN = "default"

PROMOTE_BATCH = 2_000
"""Jobs promoted by one statement: some 20 ms, so the lease is renewed on time however many are due."""

IDLE = 5.0
"""Seconds between looks for due jobs when none is known: what a lost hint can cost a scheduled job."""

IDLE_POLLING = 1.0
"""The same without LISTEN."""

RESCUE_INTERVAL = 5.0
"""Seconds between looks for expired processes at most; the look itself says when the next one is due."""

RESCUE_ALL = 60.0
"""Seconds until all running jobs are looked at though no process has expired: one whose row was locked at the time was skipped.
A guess: it is for what hardly happens, and the look reads the whole table of living jobs."""

RESCUE_MARGIN = 0.05
"""Seconds after that: a beat that was on its way has arrived."""

PARTITION_INTERVAL = 3_600.0
"""Seconds between looks at the archive's partitions, which are made three days ahead."""

PAUSE = 1.0
"""Seconds between attempts while the database is away."""


class Maintainer:
    """The maintainer's thread."""

    def __init__(self, config: Config, url: str, identity: str) -> None:
        self._config = config
        self._url = url
        self._identity = identity
        self._term: int | None = None
        self._wakeup = threading.Event()
        self._stopping = False
        self._connection: Connection | None = None
        self._look_at_all = 0.0  # monotonic time of the next rescue whatever has expired
        self._due = dict.fromkeys(("lease", "promote", "rescue", "partitions"), 0.0)  # monotonic times
        self._thread = threading.Thread(target=self._run, name="fastq maintainer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look for due jobs now; called by the listener's thread."""
        self._due["promote"] = 0.0
        self._wakeup.set()

    def stop(self) -> None:
        """End soon, and free the lease."""
        self._stopping = True
        self._wakeup.set()

    @property
    def ended(self) -> bool:
        """Tell whether it has ended."""
        return not self._thread.is_alive()

    def watched(self) -> Connection | None:
        """Return the connection, for the watchdog."""
        return self._connection

    def _run(self) -> None:
        while not self._stopping:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                self._round(self._connection)
            except (db.Error, DatabaseUnavailable) as error:
                emit("maintainer.waits", level=logging.WARNING, error=db.first_line(error))
                self._drop()
                self._wakeup.wait(PAUSE)
            self._wakeup.clear()
        self._release()

    def _round(self, connection: Connection) -> None:
        """Do what is due, then sleep until the next is."""
        now = time.monotonic()
        if now >= self._due["lease"]:
            self._take_lease(connection)
        if self._term is not None:
            for chore, due in list(self._due.items()):
                if chore != "lease" and time.monotonic() >= due:
                    self._due[chore] = time.monotonic() + getattr(self, f"_{chore}")(connection)
        waiting = self._due.values() if self._term is not None else [self._due["lease"]]
        if not self._stopping:
            self._wakeup.wait(max(0.0, min(waiting) - time.monotonic()))

    def _take_lease(self, connection: Connection) -> None:
        rows = connection.run("lease_take", DOMAIN, self._identity, self._config.lease_ttl)
        term = rows[0][0] if rows else None
        if term != self._term:
            emit("leader.elected" if term is not None else "leader.lost", domain=DOMAIN, term=term)
            if term is not None:
                self._due = dict.fromkeys(self._due, 0.0)
        self._term = term
        self._due["lease"] = time.monotonic() + self._config.lease_ttl / 3

    def _promote(self, connection: Connection) -> float:
        promoted, next_due, _ = connection.run_one("job_promote", PROMOTE_BATCH, self._config.channel)
        if promoted == PROMOTE_BATCH:
            return 0.0
        idle = IDLE_POLLING if self._config.poll_only else IDLE
        return idle if next_due is None else min(max(float(next_due), 0.001), idle)

    def _rescue(self, connection: Connection) -> float:
        error = error_json("the process that executed the job is gone: its host no longer gives a sign of life")
        due, next_due = connection.run_one("process_expired", self._identity)
        if due or time.monotonic() >= self._look_at_all:
            expired, again, ended, _ = connection.run_one("job_rescue", self._config.process_ttl, self._config.channel, error)
            self._look_at_all = time.monotonic() + RESCUE_ALL
            if expired or again or ended:
                emit("jobs.rescued", level=logging.WARNING, processes=expired, again=again, ended=ended)
        return RESCUE_INTERVAL if next_due is None else min(max(float(next_due), 0.0) + RESCUE_MARGIN, RESCUE_INTERVAL)

    def _partitions(self, connection: Connection) -> float:
        partitions.ensure_partitions(connection)
        for name in partitions.drop_old_partitions(connection, self._config.archive_days):
            emit("archive.pruned", partition=name)
        return PARTITION_INTERVAL

    def _connect(self) -> Connection:
        config = self._config
        return db.connect(
            self._url,
            role="maintainer",
            schema=config.schema,
            pinned=not config.poll_only,
            prepare=not config.poll_only,
            timeout=config.statement_timeout,
        )

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _release(self) -> None:
        try:
            if self._connection is not None and self._term is not None:
                self._connection.run("lease_release", DOMAIN, self._identity, self._term)
        except db.Error as error:
            emit("leader.not_released", level=logging.WARNING, error=db.first_line(error))
        self._drop()
