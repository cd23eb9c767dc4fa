"""Pausing and resuming queues, kinds, gates, keys and everything.

The functions run in threads of the source, over its connection; each change is one statement of admin/pauses.py. Names stand in
parameters of the address, since they may have any characters, a slash too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastq import admin
from fastq.admin.held import read_key
from fastq.web.routing.view import Action, Asked, Done, Field, decimal

if TYPE_CHECKING:
    from fastq.admin.pauses import Target
    from fastq.web.routing.view import Visit

SPANS = (("", "until somebody resumes it"), ("900", "15 minutes"), ("3600", "1 hour"), ("14400", "4 hours"), ("86400", "1 day"))
UNTIL = Field("until", "For", choices=SPANS)
REASON = Field("reason", "Reason", hint="shown wherever somebody asks why a job waits")

EFFECTS = {
    "queue": "No process claims from it any more. Jobs that run go on.",
    "kind": "No process starts a job of this kind, in whatever queue. Jobs that run go on.",
    "gate": "No job is let go there any more. Jobs that run go on.",
    "everything": "No process claims from any queue. Jobs that run go on.",
}


def _target(sort: str, visit: Visit) -> Target:
    given: dict[str, Any] = {"everything": True} if sort == "everything" else {sort: visit.need("name")}
    key = visit.get("key")
    if sort == "gate" and key is not None:
        given["key"] = read_key(key)
    return cast("Target", given)


def _back(sort: str) -> str:
    return "/gates" if sort == "gate" else "/queues"


def _ask_pause(sort: str) -> Any:
    def ask(visit: Visit) -> Asked:
        subject = admin.subject_of(_target(sort, visit))
        return Asked(f"Pause {subject}?", subject, _back(sort), explained=EFFECTS[sort], fields=(UNTIL, REASON))

    return ask


def _ask_resume(sort: str) -> Any:
    def ask(visit: Visit) -> Asked:
        subject = admin.subject_of(_target(sort, visit))
        told = next((pause for pause in admin.list_pauses(visit.connection) if pause.subject == subject), None)
        facts = (("now", str(told)),) if told else (("now", f"{subject} is not paused"),)
        return Asked(f"Resume {subject}?", subject, _back(sort), facts)

    return ask


def _pause(sort: str) -> Any:
    def do(visit: Visit) -> Done:
        target, until = _target(sort, visit), visit.form.get("until", "").strip()
        reason = visit.form.get("reason", "").strip()
        admin.pause(visit.connection, target, decimal("for", until) if until else None, reason)
        return Done(f"{admin.subject_of(target)} is paused")

    return do


def _resume(sort: str) -> Any:
    def do(visit: Visit) -> Done:
        target = _target(sort, visit)
        resumed = admin.resume(visit.connection, target)
        return Done(f"{admin.subject_of(target)} " + ("goes on" if resumed else "was not paused"), ok=resumed)

    return do


PERMISSIONS = {"queue": "queues.pause", "kind": "kinds.pause", "gate": "gates.pause", "everything": "queues.pause"}
PATHS = {"queue": "/queues", "kind": "/kinds", "gate": "/gates", "everything": "/everything"}

CONTENT = tuple(
    action
    for sort, needs in PERMISSIONS.items()
    for action in (
        Action(f"{PATHS[sort]}/pause", "Pause it", needs, _ask_pause(sort), _pause(sort), severe=sort == "everything"),
        Action(f"{PATHS[sort]}/resume", "Resume it", needs, _ask_resume(sort), _resume(sort)),
    )
)
