"""The views, as data: for each its rows, the key by which a row stays chosen, its columns, and the words where there are none.

Pure functions of figures, run in the main thread. Another view is another `Pane` in PANES, and its key the number of its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.cli.history.stats import BARS, drawn
from fastq.cli.history.stats import span as lasting
from fastq.cli.top.columns import Column, Span, by_time, short, span
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq import admin
    from fastq.admin.dead import DeadGroup
    from fastq.admin.running import ProcessRow, RunningRow
    from fastq.cli.top.figures import Figures, QueueFigures

NARROW = 100
"""Cells below which fewer minutes of failures are drawn."""

FEW_MINUTES = 5

MEBIBYTE = 2**20


class Pane(NamedTuple):
    """A view: `rows` are values of admin's, `cells` makes their spans for a width of the screen."""

    title: str
    rows: Callable[[Figures], Sequence[Any]]
    key: Callable[[Any], Any]
    columns: tuple[Column, ...]
    cells: Callable[[Any, Figures, int], Sequence[Span]]
    empty: str
    note: Callable[[Figures], str] = lambda _: ""


def _queue(row: QueueFigures, _: Figures, width: int) -> list[Span]:
    queue, rates = row.queue, row.rates
    minutes = rates.failures if width >= NARROW else rates.failures[-FEW_MINUTES:]
    styles = {"available": "", "claimed": "cyan", "scheduled": "", "retryable": "yellow", "waiting": "yellow"}
    counts = [(getattr(queue, name), name in queue.more, style) for name, style in styles.items()]
    return [
        span(queue.name, "" if queue.state == "open" else "yellow"),
        *((short(count, more) if count else "-", style if count else "dim") for count, more, style in counts),
        (by_time(rates.rate), ""),
        (lasting(rates.wait.p50 if rates.wait else None), ""),
        (lasting(rates.wait.p95 if rates.wait else None), ""),
        (lasting(rates.run.p50 if rates.run else None), ""),
        (lasting(rates.run.p95 if rates.run else None), ""),
        (by_time(rates.failing), "red" if rates.failing else ""),
        (drawn(minutes, BARS), "red" if any(minutes) else "dim"),
        span("" if queue.state == "open" else queue.state),
    ]


def _running(row: RunningRow, figures: Figures, _: int) -> list[Span]:
    began = (figures.at - row.attempted_at).total_seconds() if row.attempted_at else None
    place = f"{row.host}:{row.pid}" if row.host else "its process is gone"
    told = " ".join(part for part in (f"{row.fraction:.0%}" if row.fraction is not None else "", row.text or "") if part)
    return [
        span(row.id),
        span(row.kind),
        span(row.queue),
        span(f"{row.attempt}/{row.max_attempts}", "yellow" if row.attempt > 1 else ""),
        (lasting(max(began, 0.0) if began is not None else None), ""),
        span(place, "" if row.host else "red"),
        span("asked to end" if row.cancel_requested else told, "yellow" if row.cancel_requested else ""),
    ]


def _job(row: admin.JobRow, _: Figures, __: int) -> list[Span]:
    first = (row.error or "").partition("\n")[0] if row.state is not State.COMPLETED else ""
    return [
        span(row.id),
        span(row.state.value),
        span(row.kind),
        span(row.queue),
        span(f"{row.attempt}/{row.max_attempts}"),
        span(row.finalized_at or row.attempted_at or row.scheduled_at or row.created_at),
        span(first or (f"at {row.gates}" if row.gates else "")),
    ]


def _failure(row: DeadGroup, _: Figures, __: int) -> list[Span]:
    return [
        span(short(row.jobs), "red"),
        span(short(row.replayed) if row.replayed else "", "green"),
        span(row.kind),
        span(row.cause),
        span(row.last),
        span(row.shape or row.message.partition("\n")[0]),
    ]


def _process(row: ProcessRow, figures: Figures, _: int) -> list[Span]:
    runs = sum(job.process == row.id for job in figures.running)
    kinds = "any" if row.kinds is None else short(len(row.kinds))
    up = (figures.at - row.started_at).total_seconds()
    told = row.vitals
    size = told and (told.pss or told.rss)
    return [
        span(row.host),
        span(row.pid),
        ("alive", "green") if row.lives else ("silent", "red"),
        (lasting(max(up, 0.0)), ""),
        (short(runs), "cyan" if runs else "dim"),
        (f"{told.busy}/{told.executors}" if told else "", ""),
        (f"{size / MEBIBYTE:,.0f}M" if size else "", ""),
        (f"{told.load:.0%}" if told and told.load is not None else "", ""),
        (short(told.threads) if told and told.threads else "", ""),
        (kinds, ""),
        span(row.domain),
        span(row.queues),
    ]


def _newest(figures: Figures) -> Sequence[Any]:
    return figures.jobs.jobs if figures.jobs else ()


def _groups(figures: Figures) -> Sequence[Any]:
    return figures.failures.groups if figures.failures else ()


def _of_jobs(figures: Figures) -> str:
    if figures.jobs is None or figures.jobs.looked_until is None:
        return ""
    return f"looked back to {figures.jobs.looked_until:%Y-%m-%d %H:%M} UTC, then time was over: older jobs may fit too"


def _of_failures(figures: Figures) -> str:
    lately = figures.failures
    if lately is None or not lately.jobs:
        return ""
    return f"the newest {lately.jobs:,} of more" if lately.more else ""


PANES = {
    "queues": Pane(
        "Queues",
        lambda figures: figures.queues,
        lambda row: row.queue.name,
        (
            Column("queue", least=8),
            Column("avail", "jobs that live", right=True),
            Column("run", "jobs that live", right=True),
            Column("sched", "jobs that live", right=True),
            Column("retry", "jobs that live", right=True),
            Column("wait", "jobs that live", right=True),
            Column("jobs/s", right=True),
            Column("p50", "waited", right=True, room=4),
            Column("p95", "waited", right=True, room=4),
            Column("p50", "ran", right=True, room=4),
            Column("p95", "ran", right=True, room=4),
            Column("/min", "failed", right=True, spare=2),
            Column("", "failed", room=FEW_MINUTES),
            Column("", spare=1),
        ),
        _queue,
        "no queues: no jobs wait and no process works",
    ),
    "running": Pane(
        "Running",
        lambda figures: figures.running,
        lambda row: row.id,
        (
            Column("id", right=True),
            Column("kind", least=8),
            Column("queue", least=8, spare=1),
            Column("try", right=True),
            Column("for", right=True),
            Column("process", least=10),
            Column("progress", least=8),
        ),
        _running,
        "no job runs",
    ),
    "jobs": Pane(
        "Jobs",
        _newest,
        lambda row: row.id,
        (
            Column("id", right=True),
            Column("state"),
            Column("kind", least=8),
            Column("queue", least=8, spare=1),
            Column("try", right=True),
            Column("last"),
            Column("error", least=16),
        ),
        _job,
        "no such jobs",
        _of_jobs,
    ),
    "failures": Pane(
        "Failures",
        _groups,
        lambda row: row.id,
        (
            Column("jobs", right=True),
            Column("replayed", right=True, spare=1),
            Column("kind", least=8),
            Column("cause"),
            Column("last"),
            Column("error", least=16),
        ),
        _failure,
        "no job was discarded in the last hour",
        _of_failures,
    ),
    "processes": Pane(
        "Processes",
        lambda figures: figures.processes,
        lambda row: row.id,
        (
            Column("host", least=10),
            Column("pid", right=True),
            Column("state"),
            Column("up", right=True),
            Column("jobs", right=True),
            Column("busy", right=True, spare=1),
            Column("mem", right=True),
            Column("cpu", right=True),
            Column("thr", right=True, spare=3),
            Column("kinds", right=True, spare=4),
            Column("domain", least=6, spare=2),
            Column("queues", least=8),
        ),
        _process,
        "no worker process is announced: start fastq run",
    ),
}


def summed(figures: Figures, width: int) -> list[Span]:
    """Return the line of totals: processes, hosts, running and available jobs, rates, failures."""
    living = [row for row in figures.processes if row.lives]
    hosts = {row.host for row in living}
    rates = [row.rates for row in figures.queues]
    failures = [sum(numbers) for numbers in zip(*(rate.failures for rate in rates), strict=True)] if rates else []
    failing = sum(rate.failing for rate in rates)
    running, available = (sum(getattr(row.queue, name) for row in figures.queues) for name in ("claimed", "available"))
    gap = " " * (3 if width >= NARROW else 2)
    more = any("available" in row.queue.more for row in figures.queues)
    parts: list[Span] = [
        (f"{len(living)} process{'' if len(living) == 1 else 'es'}", "" if living else "red"),
        (f" on {len(hosts)} host{'' if len(hosts) == 1 else 's'}", ""),
        (f"{gap}{short(running)} running", "cyan"),
        (f"{gap}{short(available, more)} available", ""),
        (f"{gap}{by_time(sum(rate.rate for rate in rates))} jobs/s", "green"),
        (f"{gap}{by_time(failing)} failed/min ", "red" if failing else ""),
    ]
    shown = failures if width >= NARROW else failures[-FEW_MINUTES:]
    return [*parts, (drawn(shown, BARS), "red" if any(failures) else "dim")]
