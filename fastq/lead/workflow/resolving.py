"""Decide over the steps after those that have ended: the pure part of the steward, without database, thread or clock.

Used by one chore (steward.py), in its track's thread in the supervisor that leads, under the locks of the workflows. A step is
let go when no edge to it is unmet. It is cancelled when the step before it was cancelled or discarded, unless it runs however
that ends; and so are those after it.

Invariants: the number of a step's unmet edges is that of its edges from steps that are not passed, whatever has become of the
step itself. A step is cancelled with the chain of its causes, the nearest first. The module deliberately keeps nothing between
two calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

COMPLETED = "completed"
CANCELLED = "cancelled"

CAUSES = 10
"""Causes that are kept with a cancelled step: the nearest of them, and the first of all. A chain may have thousands."""

Cause = tuple[int, str, str]
"""A job, the name or number of its step, and the state in which it has ended."""


class Turned(NamedTuple):
    """A step whose end is told to those after it; or, without a state, one that had ended and runs once more."""

    workflow: int
    step: int
    name: str
    job: int
    state: str | None
    because: Sequence[Cause] | None

    @property
    def fails(self) -> bool:
        """Tell whether the steps after it are to be cancelled."""
        return self.state is not None and self.state != COMPLETED


class Edge(NamedTuple):
    """An edge, with what has to be known of the step after it."""

    workflow: int
    parent: int
    child: int
    run: bool
    name: str
    job: int
    unmet: int
    waits: bool  # for the steps before it, and nothing is decided over it


class Decided(NamedTuple):
    """What is to be written of one step."""

    workflow: int
    step: int
    change: int  # of its unmet edges
    fate: str | None
    because: str | None  # JSON


read_turned = msgspec.json.Decoder(list[Turned]).decode
read_edges = msgspec.json.Decoder(list[Edge]).decode


def resolve(turned: Iterable[Turned], edges: Iterable[Edge]) -> list[Decided]:
    """Decide over the steps at the ends of the edges, which come in the order of their parents: a step after its own parents."""
    steps = {(step.workflow, step.step): step for step in turned}
    failed = {
        place: _chain((step.job, step.name, step.state), step.because)
        for place, step in steps.items()
        if step.state is not None and step.fails
    }
    changes: dict[tuple[int, int], int] = {}
    causes: dict[tuple[int, int], list[Cause]] = {}
    children: dict[tuple[int, int], Edge] = {}
    for edge in edges:
        parent, child = (edge.workflow, edge.parent), (edge.workflow, edge.child)
        children[child] = edge
        if (step := steps.get(parent)) is not None:
            changes[child] = changes.get(child, 0) + (1 if step.state is None else -1)
        if parent in failed and not edge.run and edge.waits and child not in causes:
            causes[child] = failed[parent]
            failed[child] = _chain((edge.job, edge.name, CANCELLED), failed[parent])
    return [_decided(edge, changes.get(child, 0), causes.get(child)) for child, edge in sorted(children.items())]


def _decided(edge: Edge, change: int, causes: list[Cause] | None) -> Decided:
    fate = because = None
    if causes is not None:
        fate, because = "cancel", msgspec.json.encode(causes).decode()
    elif edge.waits and change and edge.unmet + change == 0:
        fate = "go"
    return Decided(edge.workflow, edge.child, change, fate, because)


def _chain(nearest: Cause, others: Sequence[Cause] | None) -> list[Cause]:
    chain = [nearest, *(others or ())]
    return chain if len(chain) <= CAUSES else [*chain[: CAUSES - 1], chain[-1]]
