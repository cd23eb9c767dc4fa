"""Attempts with a hook around them, and jobs that are about to be enqueued: what the tests of ready-made hooks need."""

import asyncio
import json
from datetime import UTC, datetime

from fastq import Job, Kind, Registry
from fastq.hooks.asking import asked
from fastq.work.shared.rules import around_of

MAIL = Kind("mail", dict, queue="mails")


def worked(hook, body, *, is_async, carried=None, times=None, **options):
    """Work one job with the hook around it; return what its `work` has returned, or the exception.

    `times` are the moments of the job, such as its deadline, by their names in its meta.
    """
    registry = Registry(hooks=[hook])
    if is_async:

        async def work(job):
            return body(job)

    else:

        def work(job):
            return body(job)

    work.__annotations__["job"] = Job[dict]
    registry.worker(kind=MAIL, timeout=5.0, retry_delay=lambda attempt, error: 60.0)(work)
    job = Job.of({}, kind=MAIL, **{"id": 7, "max_attempts": 3, **options})
    if carried:
        job.batch.kept = {"carried": carried}
    if times:
        job.batch.kept, job.batch.worker = times, registry.workers["mail"]
        job.batch.around, _ = around_of(times, job.id)
        job.batch.now = lambda: datetime.now(UTC)
    called = registry.workers["mail"].called
    try:
        return asyncio.run(called(job)) if is_async else called(job)
    except BaseException as error:  # noqa: BLE001 - verdicts and interrupts are no Exceptions
        return error


def enqueued(hook, **options):
    """Ask the hook about a job; return what the job carries."""
    _, carried = asked([hook], MAIL, {"secret": "args"}, options)
    return json.loads(carried or "{}")
