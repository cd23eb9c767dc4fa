"""A fast, reliable job queue for Python on Postgres.

    client.enqueue(SortArgs(["whale", "tiger"]))        where work comes up, with Client or AsyncClient
    registry.register(SortWorker)                       where it is done, by `fastq run app:registry`

Public are the names below with the arguments, results and exceptions of their methods, `fastq.errors`, `fastq.logs`,
`fastq.testing`, `fastq.events.subscribe`, and the hooks of `fastq.integrations` (`Tracing`, `Sentry`, `SessionPerJob`
and its twin for coroutines); all else may change.
`kind` and `Kind` are the two further ways to declare args; `upgrade` is for args that
have changed, `Secret` and `use_keys` for args that are stored encrypted.

The folders beside this file are rooms; each begins with a sentence about itself. The modules beside them serve all rooms, in any
process: app.py imports the application, config.py has the settings, environment.py hands them on, events.py and log.py report,
isolate.py says which jobs have a process of their own, masked.py and texts.py make texts fit to be seen and stored, service.py is
a part with threads, backoff.py and size.py say when to try again and how much at once. This file is imported by all of these
processes, in whatever thread imports fastq first, and keeps nothing.
"""

import os
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastq.args.gates import Fair, Limit, Ordered
from fastq.args.hook import Enqueuing, Hook
from fastq.args.kinds import Args, Kind, kind, upgrade
from fastq.args.queues import Queue
from fastq.args.rate import Rate
from fastq.args.secret.hidden import Secret
from fastq.args.secret.ring import use_keys
from fastq.args.unique import Unique
from fastq.config import Config
from fastq.enqueue.items import Enqueue, Enqueued
from fastq.errors import FastqError
from fastq.hooks.handlers import Crash
from fastq.isolate import Isolate
from fastq.jobs.deps import Dep
from fastq.jobs.job import Job, JobCancelled, JobLost, JobTimeout, State
from fastq.jobs.outcome import Cancel, Discard, RateLimited, Retry, Snooze
from fastq.jobs.periodic import Backfill
from fastq.jobs.registry import Registry
from fastq.jobs.schedule import Cron, Every
from fastq.jobs.worker import Worker
from fastq.workflows.steps import Step, Workflow, chain, group

if TYPE_CHECKING:
    from fastq.admin.jobs import JobDetail
    from fastq.admin.search.job_filter import JobFilter
    from fastq.admin.statistics.measured import Living, StatRow, Times
    from fastq.awaiting.finished import Finished, JobProgress
    from fastq.enqueue.client import Client
    from fastq.enqueue.client_async import AsyncClient
    from fastq.hooks.current import current_job
    from fastq.joblogs.reading.log_lines import LogLine
    from fastq.leases.lease import Lease
    from fastq.leases.lease_async import AsyncLease
    from fastq.leases.singleton import Singleton, SingletonStopped
    from fastq.subscribing.event_reading import HeardEvent

__all__ = [
    "Args",
    "AsyncClient",
    "AsyncLease",
    "Backfill",
    "Cancel",
    "Client",
    "Config",
    "Crash",
    "Cron",
    "Dep",
    "Discard",
    "Enqueue",
    "Enqueued",
    "Enqueuing",
    "Every",
    "Fair",
    "FastqError",
    "Finished",
    "HeardEvent",
    "Hook",
    "Isolate",
    "Job",
    "JobCancelled",
    "JobDetail",
    "JobFilter",
    "JobLost",
    "JobProgress",
    "JobTimeout",
    "Kind",
    "Lease",
    "Limit",
    "Living",
    "LogLine",
    "Ordered",
    "Queue",
    "Rate",
    "RateLimited",
    "Registry",
    "Retry",
    "Secret",
    "Singleton",
    "SingletonStopped",
    "Snooze",
    "StatRow",
    "State",
    "Step",
    "Times",
    "Unique",
    "Worker",
    "Workflow",
    "chain",
    "current_job",
    "group",
    "kind",
    "upgrade",
    "use_keys",
]

_LATE = {
    "Client": "fastq.enqueue.client",
    "AsyncClient": "fastq.enqueue.client_async",
    "current_job": "fastq.hooks.current",
    "JobDetail": "fastq.admin.jobs",
    "JobFilter": "fastq.admin.search.job_filter",
    "Finished": "fastq.awaiting.finished",
    "HeardEvent": "fastq.subscribing.event_reading",
    "JobProgress": "fastq.awaiting.finished",
    "Lease": "fastq.leases.lease",
    "Living": "fastq.admin.statistics.measured",
    "LogLine": "fastq.joblogs.reading.log_lines",
    "AsyncLease": "fastq.leases.lease_async",
    "Singleton": "fastq.leases.singleton",
    "SingletonStopped": "fastq.leases.singleton",
    "StatRow": "fastq.admin.statistics.measured",
    "Times": "fastq.admin.statistics.measured",
}


def __getattr__(name: str) -> Any:
    """Import the names that need the database on demand: psycopg and its pool take three times as long as all the rest.

    `current_job`, too: a job pays for being the current one only in programs that have asked for it.
    """
    if name not in _LATE:
        raise AttributeError(f"module 'fastq' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def _tell_of_namesake() -> None:
    """Warn if the other distribution that is imported as `fastq`, a reader of sequencing files, lies in the same folder.

    It costs a listing of that folder, 0.2 ms where 500 packages are installed; the metadata of all of them would take longer.
    """
    try:
        beside = os.listdir(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120, PTH208 - nothing else here needs pathlib
    except OSError:  # a zip file, say
        return
    if any(name.startswith("fastq-") and name.endswith((".dist-info", ".egg-info")) for name in beside):
        warnings.warn(
            "two installed distributions are imported as 'fastq', and overwrite each other's files: fastq-jobs (this job queue) "
            "and fastq (a reader of sequencing files); keep one of them in an environment: pip uninstall fastq, and then "
            "pip install --force-reinstall --no-deps fastq-jobs",
            RuntimeWarning,
            stacklevel=3,
        )


_tell_of_namesake()
