"""The list of jobs, by the words of a filter.

The functions run in a thread of the source, over its connection. A page goes back from the newest job for as long as a person
waits, and says how far it came (admin/search/). All of the filter stands in the address, so a list can be sent to somebody.

Invariant: nobody learns by a filter what no page shows to them. Words about args and meta are for those who may see args, at an
address of its own; where the application redacts values there are no such words, nor words about errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq.admin import search
from fastq.admin.search import JobFilter
from fastq.admin.search.terms import quoted
from fastq.errors import OptionError
from fastq.jobs.job import State
from fastq.web.look.rendering import address
from fastq.web.routing.view import Elsewhere, View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit

PAGE = 40
"""Jobs on a page: with an error in each of them it has some 30 kB."""

EVERY = 3.0
"""Seconds between two looks at a list that is open; one that takes long is looked at less often (live/following.py)."""

BY_ARGS = "/jobs/by-args"
"""The address of lists whose filters have words about args: it needs the permission to see these."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the newest jobs that fit, for viewers who may not see args."""
    if wanted := visit.number("id"):
        raise Elsewhere(f"/jobs/{wanted}")
    return _listed(visit, "/jobs")


def load_by_args(visit: Visit) -> Mapping[str, Any]:
    """Read the newest jobs that fit, for viewers who may see args."""
    return _listed(visit, BY_ARGS)


def _listed(visit: Visit, path: str) -> Mapping[str, Any]:
    words, states, after = _words(visit), visit.all("state"), visit.get("after")
    chosen = {"q": words, "state": states}
    shown = {"words": words, "chosen": states, "states": [state.value for state in State], "path": path}
    try:
        wanted = filter_of(visit)
        if path != BY_ARGS and names_args(wanted):
            raise Elsewhere(address(BY_ARGS, **chosen, after=after))
        page = search.list_jobs(visit.connection, wanted, limit=PAGE, after=after)
    except OptionError as error:
        return {**shown, **_nothing(), "fault": str(error), "here": address(path, **chosen)}
    return {
        **shown,
        "fault": "",
        "all": chosen if str(wanted) else None,
        "jobs": page.jobs,
        "errors": {job.id: visit.redaction.text(job.kind, "error", job.error) for job in page.jobs},
        "looked_until": page.looked_until,
        "older": address(path, **chosen, after=page.after) if page.after else None,
        "newest": address(path, **chosen) if after else None,
        "here": address(path, **chosen, after=after),
    }


def filter_of(visit: Visit) -> JobFilter:
    """Return the filter that stands in the address; OptionError for one that is none, or that this dashboard refuses."""
    wanted = JobFilter.parse(" ".join([_words(visit), *(f"state:{quoted(state)}" for state in visit.all("state"))]))
    _check(visit, wanted)
    return wanted


def names_args(wanted: JobFilter) -> bool:
    """Tell whether a filter has words about args or meta."""
    return any((wanted.args, wanted.not_args, wanted.meta, wanted.not_meta))


def _words(visit: Visit) -> str:
    """Return the words of the filter but those of states; links from other pages have a kind, a queue or a tag instead."""
    named = [(name, visit.get(name)) for name in ("kind", "queue", "tag")]
    return " ".join([visit.get("q") or "", *(f"{name}:{quoted(value)}" for name, value in named if value)]).strip()


def _check(visit: Visit, wanted: JobFilter) -> None:
    """Refuse words about values that the application redacts: a list of the jobs that fit would tell the value."""
    if visit.redaction.redacts and (names_args(wanted) or wanted.errors or wanted.not_errors):
        raise OptionError("filter: expected no words about args, meta and errors, since this dashboard hides parts of them")


def _nothing() -> dict[str, Any]:
    """Return what is shown of a list that could not be read."""
    return {"jobs": [], "errors": {}, "looked_until": None, "older": None, "newest": None, "all": None}


CONTENT = (
    View("/jobs", "Jobs", "jobs.read", "jobs.html", load, every=EVERY, menu=True),
    View(BY_ARGS, "Jobs", "jobs.args", "jobs.html", load_by_args, every=EVERY),
)
