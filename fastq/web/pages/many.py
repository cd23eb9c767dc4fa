"""Changes of all jobs that a list's filter means: the page that counts them first, and the button that makes an operation of it.

The functions run in threads of the source, over its connection. The filter stands in the address, as that of the list (jobs.py)
from which somebody comes, and is checked as there: each action has two addresses, of which the one with words about args and
meta needs the permission to see these, too. The work is the leader's (admin/bulk/): nothing waits for it here.

They deliberately have no `edit`: that has many values, of which a form would show the default as one to be set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.admin.bulk import at_once
from fastq.errors import OptionError
from fastq.web.look.rendering import address
from fastq.web.look.wording import plural
from fastq.web.pages.jobs import BY_ARGS, filter_of, names_args
from fastq.web.routing.view import Action, Asked, Done, Field

if TYPE_CHECKING:
    from fastq.admin.search import JobFilter
    from fastq.web.routing.view import Visit

SAMPLE = 5
"""Jobs that are named before an operation is made, the newest."""


class Bulk(NamedTuple):
    """A verb, as the pages name it."""

    verb: str
    button: str
    question: str
    explained: str
    severe: bool = False


VERBS = (
    Bulk(
        "retry",
        "Run all of them now",
        "Run {} now?",
        "Those that wait become available at once; those that have ended run once more, with their ids and one more attempt.",
    ),
    Bulk(
        "cancel",
        "Cancel all of them",
        "Cancel {}?",
        "Those that wait end at once. Those that run are asked to end, and may complete first.",
        severe=True,
    ),
    Bulk(
        "delete",
        "Delete all of them",
        "Delete {} for good?",
        "Their rows, errors and outputs are gone then. Jobs that run are not deleted.",
        severe=True,
    ),
    Bulk("move", "Move all of them", "Move {} into another queue?", "Jobs that run or go through gates stay where they are."),
)

QUEUE = Field("queue", "Into the queue", hint="such as default", required=True)


def _wanted(visit: Visit, path: str) -> JobFilter:
    wanted = filter_of(visit)
    if path != BY_ARGS and names_args(wanted):
        raise OptionError(f"filter: expected no words about args and meta at this address: {BY_ARGS} has a list by these")
    return wanted


def _asking(one: Bulk, path: str) -> Any:
    """Make the function that counts the jobs, and asks."""

    def ask(visit: Visit) -> Asked:
        wanted = _wanted(visit, path)
        preview = at_once.preview_operation(visit.connection, one.verb, wanted)
        count = f"{'at least ' if preview.at_least else ''}{plural(preview.jobs, 'job')}"
        newest = ", ".join(f"{job.id} ({job.kind})" for job in preview.sample[:SAMPLE])
        facts = (("filter", preview.filter), ("jobs", count), *([("the newest", newest)] if newest else ()))
        back = address(path, q=visit.get("q"), state=visit.all("state"))
        explained = f"{one.explained} The leader works through them, some hundred at a time; an operation can be cancelled."
        return Asked(
            one.question.format(count),
            f"{one.verb} {preview.filter}",
            back,
            facts,
            explained,
            (QUEUE,) if one.verb == "move" else (),
            "" if preview.jobs or preview.at_least else "No job that this could change fits the filter.",
        )

    return ask


def _doing(one: Bulk, path: str) -> Any:
    """Make the function that makes an operation."""

    def do(visit: Visit) -> Done:
        changes = {"queue": visit.form.get("queue", "").strip()} if one.verb == "move" else None
        row = at_once.make_operation(visit.connection, one.verb, _wanted(visit, path), changes, visit.by)
        count = f"{'at least ' if row.at_least else ''}{plural(row.expected, 'job')}"
        return Done(f"operation {row.id} is made: {one.verb} {count}", back=f"/operations/{row.id}")

    return do


CONTENT = tuple(
    Action(
        f"{path}/all/{one.verb}",
        one.button,
        f"bulk.{one.verb}",
        _asking(one, path),
        _doing(one, path),
        one.severe,
        ("jobs.args",) if path == BY_ARGS else (),
    )
    for path in ("/jobs", BY_ARGS)
    for one in VERBS
)
