"""The list of jobs, with filters.

`load` runs in a thread of the source, over its connection. A list goes back from the newest job for as long as a person waits,
and says how far it came (admin/jobs.py). All filters stand in the address, so a list can be sent to somebody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.errors import OptionError
from fastq.jobs.job import State
from fastq.web.look.rendering import address
from fastq.web.routing.view import Elsewhere, View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit

PAGE = 50
"""Jobs on a page."""

EVERY = 3.0
"""Seconds between two looks at a list that is open; one that takes long is looked at less often (live/following.py)."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the newest jobs that fit."""
    if wanted := visit.number("id"):
        raise Elsewhere(f"/jobs/{wanted}")
    states = [_state(one) for one in visit.all("state")]
    filters = {name: visit.get(name) for name in ("kind", "queue", "tag")}
    before = visit.number("before")
    found = admin.list_jobs(visit.connection, states=states, limit=PAGE, before=before, **filters)
    errors = {job.id: visit.redaction.text(job.kind, "error", job.error) for job in found.jobs}
    chosen = {**filters, "state": [state.value for state in states]}
    older = found.jobs[-1].id if len(found.jobs) == PAGE else None if found.complete else found.searched_to + 1
    return {
        "jobs": found.jobs,
        "errors": errors,
        "searched_to": None if found.complete else found.searched_to,
        "older": address("/jobs", **chosen, before=older) if older else None,
        "newest": address("/jobs", **chosen) if before else None,
        "chosen": chosen,
        "any": any(chosen.values()),
        "states": [state.value for state in State],
        "here": address("/jobs", **chosen, before=before),
    }


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        raise OptionError(f"state: expected one of {', '.join(State)}, got {text[:40]!r}") from None


CONTENT = (View("/jobs", "Jobs", "jobs.read", "jobs.html", load, every=EVERY, menu=True),)
