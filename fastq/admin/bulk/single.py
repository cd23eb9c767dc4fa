"""Change single jobs, each with a record in the audit: cancel, retry, delete, edit, move.

Each `Asking` runs in the thread or event loop of the caller, as one transaction: the change and its record hold, or neither. The
statements are those of admin/changes.py. Nothing is kept.

It deliberately changes no job that runs but by asking for its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.admin.bulk.audits import check_by
from fastq.admin.bulk.edits import Edit
from fastq.admin.changes import ATTEMPTS_TO_FIND, Change
from fastq.admin.session import Ask
from fastq.args.faults import show
from fastq.errors import OptionError
from fastq.jobs.job import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.admin.session import Asking

LARGEST = 2**63 - 1
"""The largest number that a column of type bigint can hold."""

CHANGES = {"cancel": "job_cancel", "retry": "job_rerun", "delete": "job_delete"}
"""The statements by verb; all but the one that deletes send hints."""

CHANGED = ("cancelled", "asked", "available", "deleted", "edited")
"""The outcomes of a change that was made."""


def check_ids(given: Any) -> list[int]:
    """Return ids, or raise OptionError with the rule."""
    ids = [given] if hasattr(given, "__index__") else list(given)
    for each in ids:
        if not hasattr(each, "__index__") or isinstance(each, bool) or not 0 < each.__index__() <= LARGEST:
            raise OptionError(f"job {show(each)}: expected the id of a job, a filter, or a list of ids")
    return list(dict.fromkeys(each.__index__() for each in ids))


def changing(verb: str, given: Any, by: str | None, *, hints: bool = True) -> Asking[list[Change]]:
    """Cancel, retry or delete jobs by their ids; return what became of each."""
    ids, name = check_ids(given), check_by(by)
    found: dict[int, Change] = {}
    left = ids
    for _ in range(ATTEMPTS_TO_FIND):
        if not left:
            break
        if verb == "delete":
            rows = yield Ask(CHANGES[verb], (left,))
        else:
            rows = yield _hinting(CHANGES[verb], (left,), hints=hints)
        found |= {int(job): Change(int(job), State(was) if was else None, *rest) for job, was, *rest in rows}
        left = [job for job in left if found[job].outcome == "missing"]
    changes = [found[job] for job in ids]
    yield from _audit(name, verb, changes, None)
    return changes


def editing(verb: str, given: Any, edit: Edit, by: str | None, *, hints: bool = True) -> Asking[list[Change]]:
    """Change values of jobs by their ids."""
    ids, name = check_ids(given), check_by(by)
    rows = yield _hinting("bulk_edit", (",".join(map(str, ids)), *edit.parameters), hints=hints)
    changes = [Change(int(job), None, outcome) for job, outcome in rows]
    yield from _audit(name, verb, changes, edit.json())
    return changes


def _hinting(statement: str, parameters: tuple[object, ...], *, hints: bool) -> Ask:
    return Ask(statement, parameters, True) if hints else Ask(statement, (*parameters, None))


def _audit(by: str, verb: str, changes: Iterable[Change], change: str | None) -> Asking[None]:
    """Record the changes that were made."""
    jobs = [change.id for change in changes if change.outcome in CHANGED]
    if jobs:
        yield Ask("audit_add", (by, verb, ",".join(map(str, jobs)), change))
