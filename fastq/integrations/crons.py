"""Sentry's page of crons: each periodic job checks in when it begins and when it has ended, so a tick that never comes is told.

    registry = Registry(hooks=[Sentry(crons=lambda: registry)])

Called by the hook (sentry.py) in the thread or event loop where a job runs. A monitor is made in Sentry by the first check-in,
which carries the schedule. The id of a check-in is made of the job's id and its tick, so all attempts of a job mean the same one.

Invariant: a job that will be tried again has not ended, and a job without a tick checks in nowhere. This module deliberately sets
no limits: how late a tick may be, and how long a job may take, are the monitor's, in Sentry.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, cast

# The package is an extra: a checker has nothing to say where it is not installed.
# pyright: reportMissingImports=false
from sentry_sdk import crons

from fastq.jobs.periodic import PeriodicJob
from fastq.jobs.schedule import Cron

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.jobs.job import Job
    from fastq.jobs.registry import Registry
    from fastq.jobs.schedule import Schedule

TAG = "periodic:"  # of a periodic job: its name, put there by sql/periodic_enqueue.sql
OURS = uuid.UUID("6c9f1e0a-94d3-4a56-9f5e-0f6a9a1f7c11")
"""The space of names in which the ids of check-ins are made: any fixed number will do."""

MOST_OF_SLUG = 50
"""Characters of a monitor's name, as Sentry's documentation has them."""

ENDED = {"completed": "ok", "cancelled": "ok", "discarded": "error"}
"""What each outcome is for a monitor. A cancellation is a decision that there was nothing to do; the others do not end a job."""


class CheckIns:
    """Checks in for jobs of the schedules of one registry. Threads may fill its table at once: they write the same values."""

    def __init__(self, registry: Callable[[], Registry]) -> None:
        self._registry = registry
        self._monitors: dict[str, dict[str, Any] | None] = {}  # by the name of the periodic job

    def begin(self, job: Job[Any]) -> None:
        """Tell that a job runs, if it is the first attempt of one with a tick."""
        name = _name_of(job)
        if name is not None and job.attempt == 1:
            _send(job, name, "in_progress", self._monitor(name))

    def end(self, job: Job[Any], outcome: str) -> None:
        """Tell that a job has ended, if it has."""
        name, status = _name_of(job), ENDED.get(outcome)
        if name is not None and status is not None:
            _send(job, name, status, self._monitor(name))

    def _monitor(self, name: str) -> dict[str, Any] | None:
        """Return the configuration of a monitor, None if the schedule is none that Sentry can watch."""
        if name not in self._monitors:
            known = self._registry().declared(PeriodicJob).get(name)
            self._monitors[name] = None if known is None else _configuration(known.schedule)
        return self._monitors[name]


def _name_of(job: Job[Any]) -> str | None:
    """Return the name of the periodic job, None for any other job."""
    return next((tag.removeprefix(TAG) for tag in job.tags if tag.startswith(TAG)), None)


def _send(job: Job[Any], name: str, status: str, monitor: dict[str, Any] | None) -> None:
    if monitor is not None:
        slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower())[:MOST_OF_SLUG]
        told = uuid.uuid5(OURS, f"{job.id} {job.tick}").hex
        crons.capture_checkin(monitor_slug=slug, check_in_id=told, status=status, monitor_config=cast("Any", monitor))


def _configuration(schedule: Schedule) -> dict[str, Any] | None:
    """Return a schedule as Sentry writes it: five plain fields, or whole minutes."""
    if isinstance(schedule, Cron):
        _, _, day_of_month, _, day_of_week = schedule.expression.split()
        if re.search(r"[l#]", day_of_month + day_of_week):
            return None  # the last day of a month, the second Monday: Sentry has no words for them
        return {"schedule": {"type": "crontab", "value": schedule.expression}, "timezone": schedule.tz}
    minutes, rest = divmod(schedule.step.total_seconds(), 60)
    if rest or not minutes:
        return None
    return {"schedule": {"type": "interval", "value": int(minutes), "unit": "minute"}, "timezone": "UTC"}
