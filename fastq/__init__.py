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
processes, in whatever thread imports fastq first; a name is imported when it is first asked for, by the thread that asks, and
kept here from then on. So a program pays for the parts that it uses alone, and `fastq health` for hardly any.
"""

import os
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastq.admin.jobs import JobDetail
    from fastq.admin.search.job_filter import JobFilter
    from fastq.admin.statistics.measured import Living, StatRow, Times
    from fastq.args.gates import Fair, Limit, Ordered
    from fastq.args.hook import Enqueuing, Hook
    from fastq.args.kinds import Args, Kind, kind, upgrade
    from fastq.args.queues import Queue
    from fastq.args.rate import Rate
    from fastq.args.secret.hidden import Secret
    from fastq.args.secret.ring import use_keys
    from fastq.args.unique import Unique
    from fastq.awaiting.finished import Finished, JobProgress
    from fastq.config import Config
    from fastq.enqueue.client import Client
    from fastq.enqueue.client_async import AsyncClient
    from fastq.enqueue.items import Enqueue, Enqueued
    from fastq.errors import FastqError
    from fastq.hooks.current import current_job
    from fastq.hooks.handlers import Crash
    from fastq.isolate import Isolate
    from fastq.joblogs.reading.log_lines import LogLine
    from fastq.jobs.deps import Dep
    from fastq.jobs.job import Job, JobCancelled, JobLost, JobTimeout, State
    from fastq.jobs.outcome import Cancel, Discard, RateLimited, Retry, Snooze
    from fastq.jobs.periodic import Backfill
    from fastq.jobs.registry import Registry
    from fastq.jobs.schedule import Cron, Every
    from fastq.jobs.worker import Worker
    from fastq.leases.lease import Lease
    from fastq.leases.lease_async import AsyncLease
    from fastq.leases.singleton import Singleton, SingletonStopped
    from fastq.subscribing.event_reading import HeardEvent
    from fastq.workflows.steps import Step, Workflow, chain, group

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

_HOMES = {
    "Args": "fastq.args.kinds",
    "AsyncClient": "fastq.enqueue.client_async",
    "AsyncLease": "fastq.leases.lease_async",
    "Backfill": "fastq.jobs.periodic",
    "Cancel": "fastq.jobs.outcome",
    "Client": "fastq.enqueue.client",
    "Config": "fastq.config",
    "Crash": "fastq.hooks.handlers",
    "Cron": "fastq.jobs.schedule",
    "Dep": "fastq.jobs.deps",
    "Discard": "fastq.jobs.outcome",
    "Enqueue": "fastq.enqueue.items",
    "Enqueued": "fastq.enqueue.items",
    "Enqueuing": "fastq.args.hook",
    "Every": "fastq.jobs.schedule",
    "Fair": "fastq.args.gates",
    "FastqError": "fastq.errors",
    "Finished": "fastq.awaiting.finished",
    "HeardEvent": "fastq.subscribing.event_reading",
    "Hook": "fastq.args.hook",
    "Isolate": "fastq.isolate",
    "Job": "fastq.jobs.job",
    "JobCancelled": "fastq.jobs.job",
    "JobDetail": "fastq.admin.jobs",
    "JobFilter": "fastq.admin.search.job_filter",
    "JobLost": "fastq.jobs.job",
    "JobProgress": "fastq.awaiting.finished",
    "JobTimeout": "fastq.jobs.job",
    "Kind": "fastq.args.kinds",
    "Lease": "fastq.leases.lease",
    "Limit": "fastq.args.gates",
    "Living": "fastq.admin.statistics.measured",
    "LogLine": "fastq.joblogs.reading.log_lines",
    "Ordered": "fastq.args.gates",
    "Queue": "fastq.args.queues",
    "Rate": "fastq.args.rate",
    "RateLimited": "fastq.jobs.outcome",
    "Registry": "fastq.jobs.registry",
    "Retry": "fastq.jobs.outcome",
    "Secret": "fastq.args.secret.hidden",
    "Singleton": "fastq.leases.singleton",
    "SingletonStopped": "fastq.leases.singleton",
    "Snooze": "fastq.jobs.outcome",
    "StatRow": "fastq.admin.statistics.measured",
    "State": "fastq.jobs.job",
    "Step": "fastq.workflows.steps",
    "Times": "fastq.admin.statistics.measured",
    "Unique": "fastq.args.unique",
    "Worker": "fastq.jobs.worker",
    "Workflow": "fastq.workflows.steps",
    "chain": "fastq.workflows.steps",
    "current_job": "fastq.hooks.current",
    "group": "fastq.workflows.steps",
    "kind": "fastq.args.kinds",
    "upgrade": "fastq.args.kinds",
    "use_keys": "fastq.args.secret.ring",
}
"""The module of each public name."""

_MODULES = ("errors", "events", "logs", "testing")
"""Modules with public names of their own, which a program may write as `fastq.errors` without importing them."""


def __getattr__(name: str) -> Any:
    """Import a name that is asked for: all of them take 60 ms, and those that need the database, with psycopg, 150 ms more.

    `current_job`, too: a job pays for being the current one only in programs that have asked for it.
    """
    if name in _MODULES:
        return import_module(f"fastq.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'fastq' has no attribute {name!r}")
    import_module(
        "fastq.config"
    )  # it says how the settings of keys are read, which encrypted args need wherever they are written
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """List the names that are not imported yet, too."""
    return sorted({*globals(), *__all__, *_MODULES})


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
