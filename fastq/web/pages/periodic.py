"""Periodic jobs: when each ticks, in plain words; its last ticks and next ones; pausing, resuming, and running it now.

The functions run in threads of the source, over its connection. They deliberately change no definition: that is the
application's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastq.admin import periodic
from fastq.errors import FastqError, OptionError
from fastq.web.look.rendering import address
from fastq.web.look.schedules import in_words, next_ticks
from fastq.web.routing.view import Action, Asked, Done, Missing, View

if TYPE_CHECKING:
    from fastq.admin.periodic import PeriodicRow
    from fastq.web.routing.view import Visit

TICKS, NEXT = 20, 5
"""Ticks that are shown of a periodic job: the last ones, and the next."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read all periodic jobs."""
    rows = periodic.list_periodic(visit.connection)
    return {"rows": [(row, in_words(row.schedule)) for row in rows]}


def load_one(visit: Visit) -> Mapping[str, Any]:
    """Read one of them, and its ticks."""
    row = _found(visit)
    after = max(row.last_tick or datetime.now(UTC), datetime.now(UTC))
    return {
        "title": row.name,
        "row": row,
        "words": in_words(row.schedule),
        "ticks": periodic.list_ticks(visit.connection, row.name, TICKS),
        "next": next_ticks(row.schedule, row.tz, after, NEXT) if row.state == "on" else [],
    }


def _found(visit: Visit) -> PeriodicRow:
    try:
        return periodic.find_periodic(visit.connection, visit.need("name"))
    except OptionError:
        raise
    except FastqError as error:
        raise Missing(str(error)) from None


def _asking(question: str, explained: str) -> Any:
    def ask(visit: Visit) -> Asked:
        row = _found(visit)
        facts = (
            ("kind", row.kind),
            ("queue", row.queue),
            ("ticks", f"{in_words(row.schedule)} ({row.tz})"),
            ("state", row.state),
        )
        return Asked(
            question.format(name=row.name),
            f"periodic job '{row.name}'",
            address("/periodic/show", name=row.name),
            facts,
            explained,
        )

    return ask


def _pause(visit: Visit) -> Done:
    name = visit.need("name")
    periodic.pause_periodic(visit.connection, name)
    return Done(f"periodic job '{name}' is paused: its ticks are dropped")


def _resume(visit: Visit) -> Done:
    name = visit.need("name")
    resumed = periodic.resume_periodic(visit.connection, name)
    return Done(f"periodic job '{name}' " + ("goes on" if resumed else "was not paused"), ok=resumed is not None)


def _run(visit: Visit) -> Done:
    name = visit.need("name")
    job = periodic.run_periodic(visit.connection, name)
    return Done(f"job {job} of periodic job '{name}' is enqueued", back=f"/jobs/{job}")


CONTENT = (
    View("/periodic", "Periodic", "periodic.read", "periodic.html", load, every=5.0, menu=True),
    View("/periodic/show", "Periodic job", "periodic.read", "periodic_one.html", load_one, every=5.0),
    Action(
        "/periodic/run",
        "Run it now",
        "periodic.run",
        _asking("Enqueue the job of '{name}' now?", "One job more, beside its ticks."),
        _run,
    ),
    Action(
        "/periodic/pause",
        "Pause it",
        "periodic.pause",
        _asking("Pause periodic job '{name}'?", "Its ticks are dropped until somebody resumes it. Jobs that are enqueued go on."),
        _pause,
    ),
    Action(
        "/periodic/resume",
        "Resume it",
        "periodic.pause",
        _asking("Resume periodic job '{name}'?", "It goes on with its next tick; those that were dropped are not made up for."),
        _resume,
    ),
)
