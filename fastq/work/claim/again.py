"""Claim the jobs again that this process holds, where the database has forgotten that it claimed them.

A claim of plain jobs does not wait for the disk (docs/adr/0045). When Postgres crashes, the claims of its last half second may be
forgotten, and nothing else: whatever was confirmed after a claim has brought it to the disk. The rows are available then, while
their jobs run here. Another process would run them a second time, and the outcomes of ours would change nothing; a job that makes
Postgres crash would have no attempt counted, and run for ever.

So each connection that follows another one begins with a look at all jobs that are held here. It is made in the thread that opens
the connection: the producer's and the completer's of a worker process, whichever comes first. A process that was quicker may have
claimed such a job by then; that one runs twice, as after any commit that a database has forgotten.

It keeps nothing. It deliberately leaves jobs out whose attempt was given up uncharged: their rows may be available because we
gave them back.
"""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.jobs.outcome import fate_of
from fastq.postgres import db

if TYPE_CHECKING:
    from fastq.jobs.job import Job
    from fastq.postgres.db import Connection
    from fastq.work.shared.held import Held


def claim_again(connection: Connection, held: Held, process: int) -> None:
    """Have the rows of all jobs that the process holds be its own again, where they are as before their claims."""
    jobs = [job for job in held.jobs() if job.batch.claim and _counts(job)]
    if not jobs:
        return
    jobs.sort(key=attrgetter("id"))
    lists = [job.id for job in jobs], [job.batch.claim for job in jobs], [job.attempt for job in jobs]
    try:
        [count] = connection.run_one("job_claim_again", process, *lists)
    except db.Error:
        connection.close()  # nobody has it yet
        raise
    if count:
        emit("jobs.claimed_again", level=logging.WARNING, count=count)


def _counts(job: Job[Any]) -> bool:
    """Tell whether the attempt counts, or has not ended."""
    try:
        fate = fate_of(job.outcome)
    except TypeError:  # no outcome: the writer makes a failure of it
        return True
    return fate.state is not None or fate.charged
