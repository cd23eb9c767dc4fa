"""The statements by which workflows are enqueued, added to, cancelled and retried: each follows from the answers before it.

Runs in the enqueuing thread or event loop, on plain values; the clients' sessions run the calls that `steps` asks for, in one
transaction. A change (`Adding`, `Cancelling`, `Retrying`) belongs to the client's method that makes it, and `steps` alone writes
its attributes; a `Batch` belongs to the `with` block. A workflow of any size takes two statements: one makes its row, one has
arrays of all jobs, steps and edges.

Invariant: whatever changes a workflow that is there locks its row first, and reads its steps by a later statement. The leader's
steward locks the row in the same way before it reads edges: so no edge is added to a step behind its back, and no workflow ends
while a step is added. It deliberately resolves no edge: the steward does (lead/workflow/).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from fastq.args.meta import in_ascii
from fastq.enqueue.calls import Call, Row, call_of, wakes_of
from fastq.enqueue.items import encoded
from fastq.errors import ArgsError, OptionError, UnknownKind, WorkflowError
from fastq.events import emit
from fastq.postgres import hints
from fastq.workflows.plan import Plan, plan_of
from fastq.workflows.steps import Member, Step, Workflow

if TYPE_CHECKING:
    from fastq.enqueue.settings import Settings
    from fastq.enqueue.uniques import Steps

WHAT = {"failed": False, "failed_and_downstream": True}
"""The values of `what`, and whether the steps that were cancelled because of the failed ones run once more, too."""

After = Iterable["str | int"]

Asked = Generator[Call, Sequence[Sequence[Any]], Any]
"""Some of the statements of a change."""


T_co = TypeVar("T_co", covariant=True)


class Stepped(Protocol[T_co]):
    """A change of several statements, each of which follows from the answers before."""

    wakes: set[str]

    @property
    def in_one_step(self) -> bool:
        """Tell whether it takes one statement that changes anything."""
        ...

    def steps(self) -> Steps:
        """Ask for one statement after the other."""
        ...

    def told(self) -> T_co:
        """Return the result."""
        ...


@dataclass(frozen=True, slots=True)
class Started:
    """The jobs that were enqueued as steps of a workflow: its id, theirs in the order of the steps, and those by name."""

    id: int
    ids: tuple[int, ...]
    jobs: dict[str, int]


class Batch:
    """The jobs that a `with client.batch(...)` block collects; `started` has their ids when the block has ended."""

    def __init__(self, flow: Workflow) -> None:
        self.flow = flow
        self.started: Started | None = None

    def add(self, item: Member, *, name: str | None = None) -> Step:
        """Add a job, or a workflow of several; the `name` tells them apart where a workflow is shown."""
        return self.flow.add(item, name=name)


class _Change:
    """The part that all changes of workflows share."""

    in_one_step = False

    def __init__(self) -> None:
        self.wakes: set[str] = set()


class Adding(_Change):
    """A new workflow, or steps that are added to one."""

    def __init__(self, flow: Any, settings: Settings, workflow: int | None = None, after: After = ()) -> None:
        super().__init__()
        self._plan = plan_of(flow)
        self._workflow = workflow
        self._after = tuple(after)
        self._rows = _rows(self._plan, settings)
        self._callbacks = _callbacks(self._plan, settings)
        if workflow is not None and self._callbacks is not None:
            raise OptionError(f"workflow '{self._plan.name}': has callbacks, and is added to another one, which has its own")
        self._ids: tuple[int, ...] = ()

    def told(self) -> Started:
        """Return the ids."""
        assert self._workflow is not None  # `steps` has come to its end
        named = zip(self._plan.steps, self._ids, strict=True)
        return Started(self._workflow, self._ids, {step.name: job for step, job in named if step.name is not None})

    def steps(self) -> Steps:
        """Ask for the statements."""
        if self._workflow is None:
            [(self._workflow,)] = yield Call("workflow_begin", (self._plan.name, self._callbacks), set())
            first, outer = 0, list[list[Any]]()
            if not self._rows:
                [(_, wakes)] = yield Call("workflow_end", (self._workflow,), set())
                self.wakes = {*wakes}
        else:
            [(first, *_)] = yield from _locked(self._workflow)
            outer = yield from self._outer()
        edges = [[[first + edge.parent, edge.run] for edge in step.after] or outer for step in self._plan.steps]
        told = [[step.name, after] for step, after in zip(self._plan.steps, edges, strict=True)]
        if not told:
            return
        rows = yield call_of("workflow_add", self._rows, self._workflow, first, in_ascii(msgspec.json.encode(told).decode()))
        self._ids = tuple(int(job) for (job,) in rows)
        roots = {spec for (spec, _), after in zip(self._rows, edges, strict=True) if not after}
        self.wakes = set().union(*map(wakes_of, roots)) | ({hints.WORKFLOW.word} if outer else set())

    def _outer(self) -> Asked:
        """Find the steps after which those run that are added and have none before them among these."""
        names = [step.name for step in self._plan.steps if step.name is not None]
        asked = [name for name in self._after if isinstance(name, str)]
        found: dict[str, int] = {}
        if names or asked:
            rows = yield Call("workflow_names", (self._workflow, in_ascii(msgspec.json.encode([*names, *asked]).decode())), set())
            found = {str(name): int(step) for name, step in rows}
        if twice := next((name for name in names if name in found), None):
            raise WorkflowError(f"workflow {self._workflow} has a step '{twice}' already; give this one another name")
        if missing := next((name for name in asked if name not in found), None):
            raise WorkflowError(f"after={missing!r}: workflow {self._workflow} has no step of this name")
        return [[found[one] if isinstance(one, str) else one, False] for one in self._after]


class Cancelling(_Change):
    """The cancellation of a workflow."""

    def __init__(self, workflow: int) -> None:
        super().__init__()
        self._workflow = workflow
        self._told = (0, 0)

    def told(self) -> int:
        """Return how many jobs were cancelled, or asked to end."""
        cancelled, asked = self._told
        if cancelled or asked:
            emit("workflow.cancelled", id=self._workflow, cancelled=cancelled, asked=asked)
        return cancelled + asked

    def steps(self) -> Steps:
        """Ask for the statements."""
        yield from _locked(self._workflow, closed=True)
        [(cancelled, asked, *_)] = yield Call("workflow_cancel", (self._workflow, None), set())
        self._told = (int(cancelled), int(asked))
        self.wakes = {hints.CANCEL.word, hints.GATE.word, hints.WORKFLOW.word} if sum(self._told) else set()


class Retrying(_Change):
    """A second run of the steps of a workflow that have failed."""

    def __init__(self, workflow: int, what: str) -> None:
        super().__init__()
        if what not in WHAT:
            raise OptionError(f"what={what!r}: expected one of {', '.join(map(repr, WHAT))}")
        self._workflow = workflow
        self._what = what
        self._told = 0

    def told(self) -> int:
        """Return how many jobs run once more."""
        if self._told:
            emit("workflow.retried", id=self._workflow, jobs=self._told, what=self._what)
        return self._told

    def steps(self) -> Steps:
        """Ask for the statements."""
        yield from _locked(self._workflow, closed=True)
        [(again, *_)] = yield Call("workflow_retry", (self._workflow, WHAT[self._what], None), set())
        self._told = int(again)
        self.wakes = {hints.GATE.word, hints.WORKFLOW.word} if again else set()


def _locked(workflow: int, *, closed: bool = False) -> Asked:
    """Lock a workflow; unless `closed` ones will do, WorkflowError if no step can be added to it any more."""
    rows = yield Call("workflow_lock", (workflow,), set())
    if not rows:
        raise WorkflowError(f"there is no workflow {workflow}, or no longer")
    _, cancelled, ended = rows[0]
    if not closed and (cancelled or ended):
        raise WorkflowError(
            f"workflow {workflow} {'was cancelled' if cancelled else 'has ended'}: expected one that runs; a job that adds to "
            "its own workflow while it runs always finds it open, unless that was cancelled"
        )
    return rows


def _rows(plan: Plan, settings: Settings) -> list[Row]:
    """Check the jobs of the steps, and write their args."""
    try:
        rows = list(encoded((step.item for step in plan.steps), None, {}, settings.max_bytes, settings.hooks))
    except (ArgsError, UnknownKind, OptionError) as error:
        error.add_note(f"in workflow '{plan.name}'")
        raise
    for step, (spec, _) in zip(plan.steps, rows, strict=True):
        if spec.asked is not None:
            told = "a step" if step.name is None else f"step '{step.name}'"
            raise OptionError(
                f"workflow '{plan.name}': {told} of kind '{spec.kind}' is unique; a step has its place in its workflow alone, "
                "and cannot stand for another job: take a kind that is not unique, or enqueue it from within a step"
            )
    return rows


def _callbacks(plan: Plan, settings: Settings) -> str | None:
    """Write the callbacks as JSON."""
    if not plan.callbacks:
        return None
    written: dict[str, Any] = {}
    jobs = encoded(plan.callbacks.values(), None, {}, settings.max_bytes, settings.hooks)
    for event, (spec, text) in zip(plan.callbacks, jobs, strict=True):
        if spec.asked is not None:
            raise OptionError(f"workflow '{plan.name}': {event} is unique, and a callback is enqueued once by itself")
        written[event] = {
            "kind": spec.kind,
            "queue": spec.queue,
            "priority": spec.priority,
            "max_attempts": spec.max_attempts,
            "args": text.decode(),
            "tags": spec.tags,
            "delay": spec.delay,
            "at": spec.at,
            "meta": None if spec.meta is None else msgspec.Raw(spec.meta.encode()),
        }
    return in_ascii(msgspec.json.encode(written).decode())
