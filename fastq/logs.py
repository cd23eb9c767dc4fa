"""Have the application's own log records say which job they come from.

    logging.getLogger().handlers[0].addFilter(fastq.logs.JobFilter())       the records of one handler
    fastq.logs.install()                                                    all records of the program
    structlog.configure(processors=[fastq.logs.add_job, ...])               structlog's, where an application uses it

Used in any thread or task of a program that works jobs; outside of a job the fields are None. Importing this module makes each
job pay some 0.2 us for being the current one (hooks/current.py).

Invariant: a record that has the fields already keeps them, since a queue may have carried it to another thread. The module
deliberately configures no logging, and imports no structlog: a processor is a plain function.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastq.hooks.current import current_job
from fastq.log import OF_A_JOB

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from fastq.jobs.job import Job

__all__ = ["JobFilter", "add_job", "install"]


class JobFilter(logging.Filter):
    """Put `job_id`, `job_kind`, `job_queue` and `job_attempt` on each record; let all of them through."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Put the fields on a record."""
        if not hasattr(record, OF_A_JOB[0]):
            record.__dict__.update(_fields(current_job()))
        return True


def add_job(logger: object, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001 - structlog's call
    """Be a processor of structlog that adds the fields of the job, if there is one."""
    job = current_job()
    if job is not None:
        for field, value in _fields(job).items():
            event.setdefault(field, value)
    return event


def install() -> None:
    """Put the fields on all records of the program, whichever logger and handler they pass; may be called again."""
    make = logging.getLogRecordFactory()
    if isinstance(make, _Factory):
        return
    logging.setLogRecordFactory(_Factory(make))


class _Factory:
    """Makes records with the fields."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        record.__dict__.update(_fields(current_job()))
        return record


def _fields(job: Job[Any] | None) -> dict[str, object]:
    values = (None,) * len(OF_A_JOB) if job is None else (job.id, job.kind, job.queue, job.attempt)
    return dict(zip(OF_A_JOB, values, strict=True))
