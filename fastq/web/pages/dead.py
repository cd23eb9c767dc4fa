"""Discarded jobs in groups of like causes: a list, one group, and replaying or deleting a group.

The functions run in threads of the source, over its connection. A list reads from the newest job to older ones, for a moment at
first and for some seconds if somebody asks it to look further (`far`), and says how far it came (admin/dead/). An action takes
MOST jobs at a time, the oldest first, and says how many are left: a larger one is done by the command, which has no browser to
wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fastq.admin import dead
from fastq.errors import OptionError
from fastq.web.look.wording import plural
from fastq.web.routing.view import Action, Asked, Done, Field, Missing, View, decimal, whole

if TYPE_CHECKING:
    from fastq.admin.dead import DeadGroup
    from fastq.web.routing.view import Visit

GROUPS = 50
MOST = 5_000
"""Jobs that one action replays or deletes at most: half a second to some seconds."""

SPANS = {"1h": 3_600.0, "24h": 86_400.0, "7d": 604_800.0}
"""The spans that a list may be narrowed to."""

EVERY = 10.0
"""Seconds between two looks at the groups."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the groups."""
    chosen = {name: visit.get(name) for name in ("kind", "queue", "cause", "since")}
    since = chosen["since"]
    if since is not None and since not in SPANS:
        raise OptionError(f"since: expected one of {', '.join(SPANS)}, got {since[:40]!r}")
    which: Any = {**chosen, "since": SPANS.get(since or "")}
    far = visit.get("far") is not None
    found = dead.list_dead(visit.connection, limit=GROUPS, glance=not far, **which)
    return {
        "groups": [(group, visit.redaction.text(group.kind, "error", group.shape)) for group in found.groups],
        "more": found.more,
        "older": sum(found.older.values()),
        "searched_to": found.searched_to,
        "far": far,
        "chosen": chosen,
        "any": any(chosen.values()),
        "spans": list(SPANS),
        "total": sum(group.jobs for group in found.groups),
    }


def load_group(visit: Visit) -> Mapping[str, Any]:
    """Read one group."""
    group, searched_to = _group(visit)
    text = visit.redaction.text
    return {
        "title": f"Failures of {group.kind}",
        "group": group,
        "searched_to": searched_to,
        "far": visit.get("far") is not None,
        "shape": text(group.kind, "error", group.shape),
        "message": text(group.kind, "error", group.message),
    }


def _group(visit: Visit) -> tuple[DeadGroup, datetime | None]:
    """Return a group, and how far back its jobs were counted; None: all were. One that has no new job is looked for longer."""
    name = visit.need("group")
    for glance in (True, False) if visit.get("far") is None else (False,):
        found = dead.list_dead(visit.connection, name, limit=1, glance=glance)
        if found.groups:
            return found.groups[0], found.searched_to
    raise Missing(f"there is no group {name[:40]} of discarded jobs, or no longer")


def _jobs(group: DeadGroup, searched_to: datetime | None) -> str:
    return plural(group.jobs, "job") if searched_to is None else f"{group.jobs:,} jobs or more"


AMOUNT = Field("limit", "At most", "1000", f"jobs, the oldest first; up to {MOST:,} at a time", number=True, required=True)
RATE = Field("rate", "At a rate of", "", "jobs a second; empty: as fast as they run", number=True)
AGAIN = Field("again", "Jobs that were replayed before", "", choices=(("", "leave them out"), ("yes", "replay them again")))


def _ask_replay(visit: Visit) -> Asked:
    group, searched_to = _group(visit)
    explained = "Each gets a new job with the same args, queue, priority and tags; the discarded one stays as it is."
    return _asked(group, f"Replay the {_jobs(group, searched_to)} of this group?", explained, (AMOUNT, RATE, AGAIN))


def _ask_delete(visit: Visit) -> Asked:
    group, searched_to = _group(visit)
    return _asked(
        group, f"Delete the {_jobs(group, searched_to)} of this group for good?", "Nobody can replay them then.", (AMOUNT,)
    )


def _asked(group: DeadGroup, question: str, explained: str, fields: tuple[Field, ...]) -> Asked:
    facts = (
        ("kind", group.kind),
        ("cause", group.cause),
        ("jobs", f"{group.jobs:,}"),
        ("replayed before", f"{group.replayed:,}"),
    )
    return Asked(question, f"group {group.id} of kind {group.kind}", f"/dead/group?group={group.id}", facts, explained, fields)


def _limit(visit: Visit) -> int:
    limit = whole("at most", visit.form.get("limit", ""))
    if not 1 <= limit <= MOST:
        raise OptionError(f"at most: expected 1 to {MOST:,}, got {limit:,}")
    return limit


def _replay(visit: Visit) -> Done:
    rate = visit.form.get("rate", "").strip()
    told = dead.replay_dead(
        visit.connection,
        visit.need("group"),
        rate=decimal("rate", rate) if rate else None,
        limit=_limit(visit),
        again=visit.form.get("again") == "yes",
    )
    skipped = f", {told.skipped:,} were left out" if told.skipped else ""
    return Done(f"{plural(told.jobs, 'job')} replayed{skipped}", ok=bool(told.jobs))


def _delete(visit: Visit) -> Done:
    deleted = dead.delete_dead(visit.connection, visit.need("group"), limit=_limit(visit))
    return Done(f"{plural(deleted, 'discarded job')} deleted", ok=bool(deleted), back="/dead")


CONTENT = (
    View("/dead", "Failures", "dead.read", "dead.html", load, every=EVERY, menu=True),
    View("/dead/group", "Failures of one cause", "dead.read", "dead_group.html", load_group, every=EVERY),
    Action("/dead/replay", "Replay them", "dead.replay", _ask_replay, _replay),
    Action("/dead/delete", "Delete them", "dead.delete", _ask_delete, _delete, severe=True),
)
