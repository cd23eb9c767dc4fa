"""Workflows: a list, one of them as a drawing with its steps, and cancelling and retrying it.

The functions run in threads of the source. The rows are read over its connection, by the client's methods; the changes are
several statements in one transaction, which the client makes on a connection of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq.admin.workflows import Progress
from fastq.errors import OptionError, WorkflowError
from fastq.web.look import graph
from fastq.web.look.charts import stacked
from fastq.web.look.rendering import address
from fastq.web.look.wording import plural
from fastq.web.routing.view import Action, Asked, Done, Field, Missing, View
from fastq.workflows.folding import DrawnStep

if TYPE_CHECKING:
    from fastq.admin.workflows import StepRow, WorkflowRow
    from fastq.web.routing.view import Visit

PAGE = 50
STEPS = 10_000
"""Steps that are read for a drawing, which folds them; a larger workflow is drawn by its first ones, and says so."""

LISTED = 200
"""Steps in the table below the drawing: those that have failed or run come first."""

FIRST = ("discarded", "running", "retryable", "cancelled", "available", "scheduled", "waiting")
"""The states by which the table is sorted; completed steps come last."""

ENDS = ("completed", "cancelled", "discarded")


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the newest workflows."""
    state, before, conn = visit.get("state"), visit.number("before"), visit.connection.raw
    if state is not None and state not in list(Progress):
        raise OptionError(f"state: expected one of {', '.join(Progress)}, got {state[:40]!r}")
    more: dict[str, Any] = {"before": before} if before is not None else {}
    rows = visit.client().workflows(state=state, limit=PAGE, conn=conn, **more)
    return {
        "rows": [(row, _bar(row)) for row in rows],
        "chosen": {"state": state},
        "states": [one.value for one in Progress],
        "older": address("/workflows", state=state, before=rows[-1].id) if len(rows) == PAGE else None,
        "newest": address("/workflows", state=state) if before else None,
    }


def _bar(row: WorkflowRow) -> list[Any]:
    counts = [("completed", row.completed), ("cancelled", row.cancelled), ("discarded", row.discarded)]
    return stacked([*counts, ("open", row.steps - row.ended)], row.steps)


def load_one(visit: Visit) -> Mapping[str, Any]:
    """Read one workflow, and lay out its drawing."""
    row = _found(visit)
    steps = visit.client().workflow_steps(row.id, limit=STEPS, conn=visit.connection.raw)
    place_of = {step.step: place for place, step in enumerate(steps)}
    drawn = [
        DrawnStep(
            step.name,
            step.kind,
            step.job,
            step.state or "ending",
            [(place_of[one], run) for one, run in step.after if one in place_of],
        )
        for step in steps
    ]
    rank = {state: place for place, state in enumerate(FIRST)}
    listed = sorted(steps, key=lambda step: (rank.get(step.state or "", len(rank)), step.step))[:LISTED]
    return {
        "title": f"{row.name} {row.id}",
        "row": row,
        "bar_parts": _bar(row),
        "drawing": graph.draw(drawn),
        "sizes": {"width": graph.WIDTH, "height": graph.HEIGHT},
        "steps": [(step, _before(step, steps, place_of)) for step in listed],
        "more": max(0, row.steps - len(listed)),
        "cut": row.steps > STEPS,
        "states": Counter(step.state or "ending" for step in steps),
        "can_retry": any(step.state in ("cancelled", "discarded") for step in steps),
    }


def _before(step: StepRow, steps: list[StepRow], place_of: Mapping[int, int]) -> list[str]:
    """Name the first steps that a step runs after."""
    named = [steps[place_of[one]] for one, _ in step.after[:5] if one in place_of]
    return [one.name or f"{one.kind} {one.step}" for one in named] + (["…"] if len(step.after) > len(named) else [])


def _found(visit: Visit) -> WorkflowRow:
    row = visit.client().workflow(visit.id, conn=visit.connection.raw)
    if row is None:
        raise Missing(f"there is no workflow {visit.id}, or no longer")
    return row


def _asked(visit: Visit, question: str, explained: str, fields: tuple[Field, ...] = ()) -> Asked:
    row = _found(visit)
    facts = (("name", row.name), ("state", row.state.value), ("steps", f"{row.steps:,}, of which {row.ended:,} have ended"))
    return Asked(question.format(id=row.id), f"workflow {row.id}", f"/workflows/{row.id}", facts, explained, fields)


def _ask_cancel(visit: Visit) -> Asked:
    return _asked(visit, "Cancel workflow {id}?", "Jobs that wait end at once; running ones are asked to end.")


def _ask_retry(visit: Visit) -> Asked:
    choices = (("failed", "those that failed"), ("failed_and_downstream", "also those that were cancelled because of them"))
    field = Field("what", "Which jobs", "failed", choices=choices)
    explained = "Jobs that were discarded, or cancelled by somebody, run once more and wait again for those before them."
    return _asked(visit, "Retry workflow {id}?", explained, (field,))


def _cancel(visit: Visit) -> Done:
    try:
        count = visit.client().cancel_workflow(visit.id)
    except WorkflowError as error:
        return Done(str(error), ok=False)
    return Done(f"workflow {visit.id}: {plural(count, 'job')} cancelled, or asked to end")


def _retry(visit: Visit) -> Done:
    what = visit.form.get("what", "failed")
    try:
        count = visit.client().retry_workflow(visit.id, what)
    except WorkflowError as error:
        return Done(str(error), ok=False)
    return Done(f"workflow {visit.id}: {plural(count, 'job')} to run once more", ok=bool(count))


CONTENT = (
    View("/workflows", "Workflows", "workflows.read", "workflows.html", load, every=3.0, menu=True),
    View("/workflows/{id:int}", "Workflow", "workflows.read", "workflow.html", load_one, every=2.0),
    Action("/workflows/{id:int}/cancel", "Cancel it", "workflows.cancel", _ask_cancel, _cancel, severe=True),
    Action("/workflows/{id:int}/retry", "Retry it", "workflows.retry", _ask_retry, _retry),
)
