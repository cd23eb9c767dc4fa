"""Settle a workflow into a plan: its jobs in an order in which each stands behind those that it runs after, with their edges.

Runs in the enqueuing thread or event loop, on plain values; flows.py alone calls it, and owns the plan. A planner and its levels
live for one call. A nested workflow is dissolved here. Its first jobs run after the steps that its own step runs after. A step
behind it runs after its last jobs, or after all of its jobs where it runs in any case: a last job is cancelled as soon as one
before it fails, while others may still run. An empty workflow is as if it were not there: a step behind it runs after the steps
that stand before it.

Invariant: an edge leads from an earlier step of the plan to a later one, and there is one at most between two steps. It
deliberately knows no database: the statements that store a plan number its steps by their places in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fastq.errors import OptionError
from fastq.workflows.steps import Ended, Step, Workflow

MAX_STEPS = 1_000_000
"""A guess: that many rows go into a table by one statement, and their parameters into memory."""

MAX_EDGES = 1_000_000
"""The same. Two groups of 1,000 jobs, one after the other, have as many edges: a job between the two makes them 2,000."""


class PlannedEdge(NamedTuple):
    """A step to run after: its place in the plan, and whether to run however it has ended."""

    parent: int
    run: bool


class PlannedStep(NamedTuple):
    """A job of the plan, with the steps that it runs after."""

    name: str | None
    item: Any
    after: tuple[PlannedEdge, ...]


class Plan(NamedTuple):
    """A workflow as it is enqueued. The callbacks are by event: on_success, on_finish, on_discard."""

    name: str
    steps: tuple[PlannedStep, ...]
    callbacks: Mapping[str, Any]


Edges = dict[int, bool]
"""Places in the plan, each with whether the job runs however that step has ended."""


def plan_of(flow: Workflow | Any) -> Plan:
    """Settle a workflow, or one job as a workflow of its own; raise OptionError if it is none that can be enqueued."""
    if not isinstance(flow, Workflow):
        alone = Workflow("job")
        alone.add(flow)
        flow = alone
    return Plan(flow.name, tuple(_Planner().planned(flow)), flow.callbacks)


class _Level:
    """A workflow that is being dissolved: how far it is, and the ends of its steps so far."""

    def __init__(self, flow: Workflow, prefix: str, before: Edges) -> None:
        self.flow = flow
        self.prefix = prefix
        self.before = before
        self.rest = iter(flow.steps)
        self.under_way: tuple[Step, int] | None = None  # a nested workflow, and the place of its first job
        self.ends: dict[Step, Edges] = {}  # of each step, the edges of a step behind it
        self.jobs: dict[Step, range] = {}  # the places of the jobs of each step
        self.behind: set[Step] = set()  # the steps that others run after

    def before_of(self, step: Step) -> Edges:
        """Return the edges of a step's first jobs."""
        if not step.after:
            return self.before
        edges: Edges = {}
        for parent in step.after:
            before = parent.step if isinstance(parent, Ended) else parent
            self.behind.add(before)
            if isinstance(parent, Ended):
                _join(edges, ((place, True) for place in self.jobs[before] or self.ends[before]))
            else:
                _join(edges, self.ends[before].items())
        return edges

    def done(self, step: Step, jobs: range, ends: Edges) -> None:
        """Take note of a step that is in the plan."""
        self.jobs[step] = jobs
        self.ends[step] = ends

    def last(self) -> Edges:
        """Return the ends of the workflow: those of the steps that no other runs after."""
        edges: Edges = {}
        for step, ends in self.ends.items():
            if step not in self.behind:
                _join(edges, ends.items())
        return edges if self.ends else self.before


class _Planner:
    """Dissolves nested workflows level by level, without recursion: a chain made in a loop of chains may be thousands deep."""

    def __init__(self) -> None:
        self.steps: list[PlannedStep] = []
        self.names: set[str] = set()
        self.edges = 0
        self.levels: list[_Level] = []
        self.open: set[Workflow] = set()  # the workflows of the levels

    def planned(self, flow: Workflow) -> list[PlannedStep]:
        self._enter(flow, "", {})
        while self.levels:
            level = self.levels[-1]
            step = next(level.rest, None)
            if step is None:
                self._leave()
            elif isinstance(step.item, Workflow):
                level.under_way = step, len(self.steps)
                self._enter(step.item, f"{level.prefix}{step.name}/" if step.name else level.prefix, level.before_of(step))
            else:
                place = self._place(step, level)
                level.done(step, range(place, place + 1), {place: False})
        return self.steps

    def _enter(self, flow: Workflow, prefix: str, before: Edges) -> None:
        if flow in self.open:
            raise OptionError(f"workflow '{flow.name}': it is a step of itself")
        self.open.add(flow)
        self.levels.append(_Level(flow, prefix, before))

    def _leave(self) -> None:
        done = self.levels.pop()
        self.open.remove(done.flow)
        if self.levels:
            outer = self.levels[-1]
            assert outer.under_way is not None
            step, first = outer.under_way
            outer.done(step, range(first, len(self.steps)), done.last())

    def _place(self, step: Step, level: _Level) -> int:
        """Put the job of a step at the end of the plan, and return its place."""
        name = None if step.name is None else level.prefix + step.name
        top = self.levels[0].flow.name
        if name in self.names:
            raise OptionError(
                f"workflow '{top}': the name '{name}' stands there twice; where one workflow is a step twice, give each of these "
                "steps a name of its own, as in add(flow, name='eu')"
            )
        if name is not None:
            self.names.add(name)
        after = tuple(PlannedEdge(place, run) for place, run in sorted(level.before_of(step).items()))
        self.edges += len(after)
        if self.edges > MAX_EDGES or len(self.steps) >= MAX_STEPS:
            raise OptionError(
                f"workflow '{top}': expected {MAX_STEPS:,} jobs and {MAX_EDGES:,} edges at most, got more at step "
                f"{len(self.steps) + 1:,}; between two large groups, one job after the first and before the second saves most"
            )
        self.steps.append(PlannedStep(name, step.item, after))
        return len(self.steps) - 1


def _join(edges: Edges, more: Iterable[tuple[int, bool]]) -> None:
    """Add edges; of two from one step, the one that asks for its success counts."""
    for place, run in more:
        edges[place] = edges.get(place, True) and run
