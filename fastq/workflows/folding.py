"""Fold the steps of a workflow until few enough are left to be drawn: steps that stand alike in the graph become one node.

Called by drawing.py alone, in the main thread of the command `fastq workflows`, which makes the steps. The module keeps no state:
each call makes its own lists and returns nodes that nobody changes.

Invariant: an edge between two steps of different nodes is an edge between these nodes, and nodes stand in an order in which each
comes after those before it in the graph. It deliberately looks at no state: a drawing keeps its form while the workflow runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class DrawnStep(NamedTuple):
    """A step, as much of it as is drawn; `after` has the places of the steps before it, each with whether it runs in any case."""

    name: str | None
    kind: str
    job: int
    state: str
    after: Sequence[tuple[int, bool]]


class Node(NamedTuple):
    """Steps that are drawn as one, by their places, and the nodes that they run after, each with whether they run anyway."""

    steps: Sequence[int]
    after: dict[int, bool]
    lines: int = 0  # as many lines of steps that run one after the other; 0 if they do not


class Folding(NamedTuple):
    """The nodes in their order; `lanes` tells whether the edges between them are to be drawn."""

    nodes: Sequence[Node]
    lanes: bool = True


def foldings(steps: Sequence[DrawnStep], most: int) -> Iterator[Folding]:
    """Yield ways to draw the steps, from all of them to one node a kind; `most` is how many nodes are drawn at all."""
    every = [Node([place], dict(step.after)) for place, step in enumerate(steps)]
    if len(steps) <= most:
        yield Folding(every)
    alike = _alike(steps, [[place] for place in range(len(steps))], most)
    if alike is not None:
        yield Folding(alike)
    lines = _lines(steps)
    if len(lines) < len(steps) and (alike := _alike(steps, lines, most)) is not None:
        yield Folding(alike)
    if len(steps) <= most:
        yield Folding(every, lanes=False)
        return
    depths = _depths(steps)
    layers = _groups([[place] for place in range(len(steps))], lambda line: (steps[line[0]].kind, depths[line[0]]))
    if len(layers) <= most:
        yield Folding(_nodes(steps, layers))
    kinds = _groups([[place] for place in range(len(steps))], lambda line: steps[line[0]].kind)
    yield Folding([Node(places, {}) for places in kinds], lanes=False)


def _groups(lines: Iterable[Sequence[int]], key: Callable[[Sequence[int]], Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for line in lines:
        found.setdefault(key(line), []).extend(line)
    return list(found.values())


def _alike(steps: Sequence[DrawnStep], lines: Sequence[Sequence[int]], most: int) -> list[Node] | None:
    """Make one node of lines that have the same kinds, and alike lines before and after them; None if that takes too many.

    The classes are refined until they do not change: then no line is before or after another of its class, since the one behind
    it would have one of the same class behind it again, and so on without an end.
    """
    line_of = {place: number for number, line in enumerate(lines) for place in line}
    before = [sorted({(line_of[parent], run) for parent, run in steps[line[0]].after}) for line in lines]
    after: list[list[tuple[int, bool]]] = [[] for _ in lines]
    for number, parents in enumerate(before):
        for parent, run in parents:
            after[parent].append((number, run))
    classes = _numbered((steps[line[0]].kind, len(line)) for line in lines)
    while True:
        found = _numbered(
            (
                classes[number],
                frozenset([(classes[parent], run) for parent, run in before[number]]),
                frozenset([(classes[child], run) for child, run in after[number]]),
            )
            for number in range(len(lines))
        )
        count = len({*found})
        if count > most:
            return None
        if count == len({*classes}):
            break
        classes = found
    of_line = {line[0]: classes[number] for number, line in enumerate(lines)}
    groups = _groups(lines, lambda line: of_line[line[0]])
    return _nodes(steps, groups, {line[0]: len(line) for line in lines if len(line) > 1})


def _numbered(keys: Iterable[Hashable]) -> list[int]:
    """Return for each key the number of the first one that equals it."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _lines(steps: Sequence[DrawnStep]) -> list[list[int]]:
    """Join steps of one kind that run one after the other, with nothing beside them."""
    children = [0] * len(steps)
    for step in steps:
        for parent, _ in step.after:
            children[parent] += 1
    lines: list[list[int]] = []
    line_of: dict[int, list[int]] = {}
    for place, step in enumerate(steps):
        parent, run = step.after[0] if len(step.after) == 1 else (-1, True)
        if not run and children[parent] == 1 and steps[parent].kind == step.kind:
            line = line_of[parent]
        else:
            lines.append(line := [])
        line.append(place)
        line_of[place] = line
    return lines


def _depths(steps: Sequence[DrawnStep]) -> list[int]:
    depths: list[int] = []
    for step in steps:
        depths.append(1 + max((depths[parent] for parent, _ in step.after), default=-1))
    return depths


def _nodes(steps: Sequence[DrawnStep], groups: Sequence[list[int]], lengths: Mapping[int, int] | None = None) -> list[Node]:
    """Make nodes of groups of steps, each behind those that it runs after, and otherwise in the order of their first steps.

    `lengths` has the lengths of lines by their first steps.
    """
    group_of = {place: number for number, group in enumerate(groups) for place in group}
    after: list[dict[int, bool]] = [{} for _ in groups]
    for place, step in enumerate(steps):
        own = group_of[place]
        for parent, run in step.after:
            if (other := group_of[parent]) != own:
                after[own][other] = after[own].get(other, True) and run
    children: list[list[int]] = [[] for _ in groups]
    for number, parents in enumerate(after):
        for parent in parents:
            children[parent].append(number)
    left = [len(parents) for parents in after]
    ready = [(min(groups[number]), number) for number, count in enumerate(left) if not count]
    heapify(ready)
    order: dict[int, int] = {}
    while ready:
        _, number = heappop(ready)
        order[number] = len(order)
        for child in children[number]:
            left[child] -= 1
            if not left[child]:
                heappush(ready, (min(groups[child]), child))
    return [
        Node(
            sorted(groups[number]),
            {order[parent]: run for parent, run in after[number].items()},
            len(groups[number]) // lengths[groups[number][0]] if lengths and groups[number][0] in lengths else 0,
        )
        for number in order
    ]
