"""Hand back at the end of a process the jobs that have not started or do not end: on a connection of its own, at once.

Used by the main thread of a worker process: the producer has ended by then, and the completer has enough to do. Jobs that cannot
be handed back, because the database is away or a row is locked, are left to the supervisor, which reads the board after our end.
It keeps nothing; the jobs come from the inboxes and slots, which their threads have left by then or will not leave in time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastq.errors import FastqError
from fastq.events import emit
from fastq.postgres import db, hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.postgres.db import Connection

TIMEOUT = 5.0
"""Seconds that a statement gets: a database that restarts is back within them."""


def hand_back(jobs: list[Job[Any]], config: Config, connect: Callable[[], Connection]) -> None:
    """Release jobs without charge; if the database cannot be reached the supervisor does it after our end."""
    if not jobs:
        return
    try:
        connection = connect()
        ids, claims = sorted(job.id for job in jobs), list({job.batch.claim for job in jobs})
        seconds = min(TIMEOUT, config.statement_timeout)  # it is ours, the main thread's: no watchdog cuts it
        locked = {id_ for (id_,) in connection.run_within(seconds, "job_locked", ids)}  # the others do not wait for these
        free = [id_ for id_ in ids if id_ not in locked]
        hints.sending(connection, lambda channel: connection.run_within(seconds, "job_release", free, claims, channel))
        connection.close()
        if locked:
            emit("jobs.not_handed_back", level=logging.ERROR, count=len(locked), error="their rows are locked")
    except (db.Error, FastqError) as error:
        emit("jobs.not_handed_back", level=logging.ERROR, count=len(jobs), error=db.first_line(error))
