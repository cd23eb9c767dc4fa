"""Build a workflow: jobs that are enqueued together, some of which run after others.

    flow = Workflow("import", on_finish=TellArgs())
    fetch = flow.add(FetchArgs(url), name="fetch")
    parse = flow.add(ParseArgs(), after=fetch)          when the job of `fetch` is completed
    flow.add(SweepArgs(), after=parse.ended)            however the job of `parse` has ended

    chain(FetchArgs(url), group(ParseArgs(), ThumbArgs()), SweepArgs())      the same without names

Used in the enqueuing thread or event loop, before anything is enqueued; a workflow belongs to the one that builds it, and `add`
alone changes it.

Invariant: a step runs after steps that were added to the same workflow before it, so the steps of one workflow have no cycle. It
deliberately knows nothing of the database and numbers no job: plan.py does, when the workflow is enqueued.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fastq.args.faults import show
from fastq.args.kinds import Args
from fastq.errors import OptionError

if TYPE_CHECKING:
    from fastq.enqueue.items import Enqueue

Member: TypeAlias = "Args | Enqueue | Workflow"
"""The things that a step may be: a job, as `enqueue_many` takes it, or a workflow within a workflow."""

After: TypeAlias = "Step | Ended | Iterable[Step | Ended]"

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,126}")
"""The names of workflows and steps: those of kinds, which logs and shells do not mangle. `/` joins the names of nested ones."""

NAME_RULE = "expected a name like 'fetch-eu', of 1 to 127 letters, digits and '_.:-'"


class Step:
    """A step of a workflow, as `Workflow.add` returns it: one job, or a workflow within a workflow.

    Give it to a later step as `after`: that one runs when this step is completed, and is cancelled when this one is cancelled or
    discarded. Give its `ended` there, and the later step runs in any case.
    """

    __slots__ = ("after", "flow", "item", "name")

    def __init__(self, flow: Workflow, item: Any, name: str | None, after: tuple[Step | Ended, ...]) -> None:
        self.flow = flow
        self.item = item
        self.name = name
        self.after = after

    @property
    def ended(self) -> Ended:
        """Return the end of this step, good or bad."""
        return Ended(self)

    def __repr__(self) -> str:
        """Show the name and the job."""
        return f"<step{f' {self.name!r}' if self.name else ''} of {show(self.item)}>"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a step, good or bad."""

    step: Step


class Workflow:
    """Jobs that are enqueued together, some of which run after others: `client.enqueue_workflow(flow)`.

    Each of the callbacks is a job, enqueued once: `on_success` when all jobs are completed, `on_finish` when all have ended,
    `on_discard` when the first of them is discarded.
    """

    def __init__(
        self,
        name: str,
        *,
        on_success: Args | Enqueue | None = None,
        on_finish: Args | Enqueue | None = None,
        on_discard: Args | Enqueue | None = None,
    ) -> None:
        self.name = _check_name(name, "workflow")
        given = {"on_success": on_success, "on_finish": on_finish, "on_discard": on_discard}
        self.callbacks: dict[str, Any] = {event: item for event, item in given.items() if item is not None}
        for event, item in self.callbacks.items():
            if isinstance(item, Workflow):
                raise OptionError(f"workflow '{name}': {event}: expected the args of one job, got a workflow")
            _check_item(item, f"workflow '{name}': {event}")
        self.steps: list[Step] = []

    def add(self, item: Member, *, name: str | None = None, after: After = ()) -> Step:
        """Add a job, or a workflow within this one, and return its step.

        It runs when the steps given as `after` are completed, at once if there are none. The `name` is how later jobs find
        this one's output (`job.deps`); of a nested workflow it comes before the names of its steps, as in `eu/fetch`. A delay
        or a time of the job counts from when it may run.
        """
        if name is not None:
            _check_name(name, f"workflow '{self.name}': step")
        told = f"workflow '{self.name}': step {f'{name!r}' if name else len(self.steps) + 1}"
        _check_item(item, told)
        if isinstance(item, Workflow) and item.callbacks:
            raise OptionError(
                f"{told}: workflow '{item.name}' has callbacks ({', '.join(item.callbacks)}), which only the outermost one may "
                "have: add a step after its step instead, or after its `ended`"
            )
        step = Step(self, item, name, self._checked(after, told))
        self.steps.append(step)
        return step

    def __repr__(self) -> str:
        """Show the name and the size."""
        return f"<workflow {self.name!r} of {len(self.steps)} steps>"

    def _checked(self, after: object, told: str) -> tuple[Step | Ended, ...]:
        """Return the steps to run after as a tuple, or raise OptionError with the rule."""
        given = (after,) if isinstance(after, Step | Ended) else after
        if not isinstance(given, Iterable):
            raise OptionError(f"{told}: after={show(after)}: expected a step, as add() returns it, or a list of steps")
        parents = tuple(given)
        for parent in parents:
            step = parent.step if isinstance(parent, Ended) else parent
            if not isinstance(step, Step):
                raise OptionError(f"{told}: after={show(parent)}: expected a step, as add() returns it, or a list of steps")
            if step.flow is not self:
                raise OptionError(
                    f"{told}: after={step!r}: that is a step of another workflow, '{step.flow.name}'; add that workflow to this "
                    "one, and give the step that add() returns"
                )
        return parents


def chain(*items: Member) -> Workflow:
    """Make a workflow of jobs of which each runs when the one before it is completed; a group among them counts as one."""
    flow = Workflow("chain")
    before: tuple[Step, ...] = ()
    for item in items:
        before = (flow.add(item, after=before),)
    return flow


def group(*items: Member) -> Workflow:
    """Make a workflow of jobs that run beside each other."""
    flow = Workflow("group")
    for item in items:
        flow.add(item)
    return flow


def _check_name(name: object, told: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise OptionError(f"{told} {show(name)}: {NAME_RULE}")
    return name


def _check_item(item: object, told: str) -> None:
    """Refuse the likeliest mistakes where they are made; the kind of the args is checked when they are enqueued."""
    if isinstance(item, Step | Ended):
        raise OptionError(f"{told}: expected args, got {item!r}, which is a step already: after={{step}} makes one run after it")
    if isinstance(item, type):
        raise OptionError(f"{told}: expected args, got the class {item.__qualname__} itself: write {item.__qualname__}(...)")
    if item is None or isinstance(item, list | tuple | set | frozenset):
        raise OptionError(f"{told}: expected the args of one job, got a {type(item).__name__}: group(*items) takes several")
