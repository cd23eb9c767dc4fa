"""Write the signs of a host in the text format of Prometheus. Pure functions, called by the thread of the port.

The names are those of the log and of ARCHITECTURE.md behind `fastq_`: processes, slots, executing, outcomes, events. Most figures
are of this host alone, summed over its worker processes. Those of the whole schema (`jobs`, `queue_processes`) are a question to
the database, which fifty hosts need not ask at once: the host that leads the schema alone tells them.

It deliberately has no kind among its labels: there may be any number of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fastq.admin.running import ProcessVitals
    from fastq.host.vitals.vitals import Vitals

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

STATES = ("available", "running", "scheduled", "retryable", "waiting")
"""The states of jobs that have not ended."""

MEASURED: tuple[tuple[str, str, str, Callable[[ProcessVitals], float | None]], ...] = (
    ("process_resident_bytes", "gauge", "memory of a worker process at the last beat", lambda one: one.rss),
    ("process_proportional_bytes", "gauge", "the same, what processes share by share; once a minute", lambda one: one.pss),
    ("process_threads", "gauge", "threads of a worker process at the last beat", lambda one: one.threads),
    ("process_cpu_seconds_total", "counter", "processor time of a worker process up to the last beat", lambda one: one.cpu),
    ("process_held", "gauge", "jobs that a worker process has: waiting, executing, or not written yet", lambda one: one.held),
)
"""The figures of a worker process: name, sort, meaning, and where they are."""

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def written(vitals: Vitals, now: float) -> str:
    """Return the page."""
    return "".join(_lines(vitals, now))


def _lines(vitals: Vitals, now: float) -> Iterator[str]:
    signs = vitals.signs
    yield from _one("alive", "gauge", "1 if the supervisor's main thread goes round", int(not vitals.not_alive(now)))
    yield from _one("ready", "gauge", "1 if the host works and the database answers", int(not vitals.not_ready(now)))
    yield from _one("places", "gauge", "worker processes that this host is to have", signs.places)
    yield from _one("processes", "gauge", "worker processes at their desks", signs.working)
    yield from _many("slots", "gauge", "jobs that this host can execute at once", "queue", signs.slots.items())
    yield from _many("executing", "gauge", "jobs that execute now, a bundle as one", "queue", signs.executing.items())
    yield from _measured(signs.measured)
    yield from _one("outcomes_total", "counter", "outcomes of jobs that were written to the database", signs.written)
    if signs.beaten_at is not None:
        yield from _one(
            "beat_age_seconds", "gauge", "seconds since the database answered a beat", round(now - signs.beaten_at, 3)
        )
    yield from _many(
        "leads", "gauge", "1 for each lease of leaders that this host holds", "lease", ((name, 1) for name in signs.leads)
    )
    yield from _many("events_total", "counter", "events of the supervisor's log, by name", "event", sorted(signs.events.items()))
    if signs.counted is not None:
        queues = signs.counted.queues
        yield from _head(
            "jobs",
            "gauge",
            "jobs of the schema that have not ended; counts stop at 10000 of a queue, or before",
        )
        for row in queues:
            for state in STATES:
                count = row.claimed if state == "running" else getattr(row, state)
                yield f'fastq_jobs{{queue="{row.name.translate(_ESCAPED)}",state="{state}"}} {count}\n'
        workers = ((row.name, row.processes) for row in queues)
        yield from _many("queue_processes", "gauge", "living worker processes of the cluster", "queue", workers)


def _measured(processes: Mapping[int, ProcessVitals]) -> Iterator[str]:
    """Write the figures of the worker processes at the last beat, each under its desk: numbers of processes have no end."""
    for name, sort, text, value in MEASURED:
        found = [(str(desk + 1), told) for desk, one in sorted(processes.items()) if (told := value(one)) is not None]
        if found:  # none has been measured before the first beat
            yield from _many(name, sort, text, "desk", found)


def _one(name: str, sort: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, sort, text)
    yield f"fastq_{name} {value}\n"


def _many(name: str, sort: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield from _head(name, sort, text)
    for key, value in values:
        yield f'fastq_{name}{{{label}="{key.translate(_ESCAPED)}"}} {value}\n'


def _head(name: str, sort: str, text: str) -> Iterator[str]:
    yield f"# HELP fastq_{name} {text}\n# TYPE fastq_{name} {sort}\n"
