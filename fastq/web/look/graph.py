"""Lay out a workflow from left to right, for a drawing in SVG: a box for each step or group of alike steps, and curves between.

Pure functions, called in the threads that read the database for a page. A large workflow is folded (workflows/folding.py) until
it has MOST boxes; a box that stands for several steps has their number, and how many of them are in which state. Boxes stand in
columns by how many come before them, and in each column as near as possible to those that they run after.

Invariant: each box is within the measures of the drawing, and no two boxes of a column touch. It deliberately knows no colours
and makes no text of SVG: the template does, which escapes the names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fastq.workflows.drawing import counted
from fastq.workflows.folding import DrawnStep, Folding, Node, foldings

MOST = 60
"""Boxes of a drawing: what a person looks through, a guess."""

WIDTH, HEIGHT, ACROSS, BETWEEN, MARGIN = 160, 40, 46, 14, 8
"""Pixels: a box, the room between columns, the room between boxes of a column, the room around all."""

THIN, PLACES = 10, 200
"""Pixels of an edge that passes a column, and how many such places there are at most: more edges are drawn straight."""

LABEL, ABOUT = 20, 25
"""Characters of a label, and of the line below it, that have room in a box."""

SWEEPS = 4
"""Times that the boxes of the columns are put in order: few crossings are left after that."""

IN_A_ROW = 4
"""Boxes beside each other where nothing runs after anything."""


@dataclass(slots=True)
class Box:
    """One box of the drawing."""

    label: str
    title: str  # all that is told of it
    about: str
    state: str
    job: int | None  # None: it stands for several
    x: float = 0.0
    y: float = 0.0


@dataclass(slots=True)
class Drawing:
    """Boxes, and curves between them: a path of SVG, and whether its end runs however its beginning ends."""

    boxes: list[Box] = field(default_factory=list)
    curves: list[tuple[str, bool]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    folded: bool = False
    edges: bool = True  # False: too many different steps, so that the boxes are kinds without their edges


def draw(steps: Sequence[DrawnStep]) -> Drawing:
    """Lay out the steps of a workflow."""
    found: Folding | None = next(iter(foldings(steps, MOST)), None)
    if found is None or not found.nodes:
        return Drawing()
    nodes = found.nodes
    drawing = Drawing([_box(steps, node) for node in nodes], folded=len(nodes) < len(steps), edges=found.lanes)
    if not any(node.after for node in nodes):
        _in_rows(drawing)
        return drawing
    layers = _Layers(nodes)
    _place(drawing, layers)
    if found.lanes:
        for number, node in enumerate(nodes):
            for parent, run in node.after.items():
                drawing.curves.append((_curve(drawing, layers, parent, number), run))
    return drawing


class _Layers:
    """Nodes in columns by how many come before them. An edge that passes a column has a place there, so no box is in its way.

    Places are numbered behind the nodes. The lists are made here and in the order of the columns, and belong to one call.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        depths: list[int] = []
        for node in nodes:
            depths.append(1 + max((depths[parent] for parent in node.after), default=-1))
        self.columns: list[list[int]] = [[] for _ in range(max(depths) + 1)]
        for number, depth in enumerate(depths):
            self.columns[depth].append(number)
        self.boxes = len(nodes)
        self.passing: dict[tuple[int, int], list[int]] = {}  # the places of an edge, by its ends
        self.before: list[list[int]] = [[] for _ in nodes]
        self.after: list[list[int]] = [[] for _ in nodes]
        self.at: dict[int, tuple[float, float]] = {}  # of places: their left end
        long = [(depths[number] - depths[parent] - 1) for number, node in enumerate(nodes) for parent in node.after]
        for number, node in enumerate(nodes):
            for parent in node.after:
                self._join(parent, number, range(depths[parent] + 1, depths[number]) if sum(long) <= PLACES else range(0))
        for _ in range(SWEEPS):
            _sweep(self.columns, self.before)
            _sweep(self.columns[::-1], self.after)

    def _join(self, parent: int, child: int, between: range) -> None:
        places = []
        for depth in between:
            places.append(len(self.before))
            self.columns[depth].append(places[-1])
            self.before.append([])
            self.after.append([])
        self.passing[parent, child] = places
        for one, next_ in pairwise([parent, *places, child]):
            self.after[one].append(next_)
            self.before[next_].append(one)

    def height(self, number: int) -> int:
        """Return how high a node or a place is."""
        return HEIGHT if number < self.boxes else THIN


def _sweep(columns: Sequence[list[int]], near: Sequence[Sequence[int]]) -> None:
    """Put the nodes of each column in the order of the middles of those that they are joined with."""
    place: dict[int, float] = {}
    for column in columns:
        _rank(column, place)
    for column in columns:
        middles = {
            number: sum(place[one] for one in near[number]) / len(near[number]) if near[number] else place[number]
            for number in column
        }
        column.sort(key=lambda number: (middles[number], number))
        _rank(column, place)


def _rank(column: Sequence[int], place: dict[int, float]) -> None:
    """Note where the nodes of a column stand, from 0 to 1."""
    for rank, number in enumerate(column):
        place[number] = rank / (len(column) - 1) if len(column) > 1 else 0.5


def _place(drawing: Drawing, layers: _Layers) -> None:
    """Give each box its place: columns from the left, each in the middle of the height."""
    heights = [sum(layers.height(number) for number in column) + BETWEEN * (len(column) - 1) for column in layers.columns]
    tallest = max(heights)
    drawing.width = 2 * MARGIN + len(heights) * WIDTH + (len(heights) - 1) * ACROSS
    drawing.height = 2 * MARGIN + tallest
    for depth, (column, height) in enumerate(zip(layers.columns, heights, strict=True)):
        x, y = MARGIN + depth * (WIDTH + ACROSS), MARGIN + (tallest - height) / 2
        for number in column:
            if number < layers.boxes:
                drawing.boxes[number].x, drawing.boxes[number].y = x, y
            else:
                layers.at[number] = (x, y + THIN / 2)
            y += layers.height(number) + BETWEEN


def _in_rows(drawing: Drawing) -> None:
    """Place boxes that have no edges: line by line."""
    rows = -(-len(drawing.boxes) // IN_A_ROW)
    wide = min(IN_A_ROW, len(drawing.boxes))
    drawing.width = 2 * MARGIN + wide * WIDTH + (wide - 1) * BETWEEN
    drawing.height = 2 * MARGIN + rows * HEIGHT + (rows - 1) * BETWEEN
    for number, box in enumerate(drawing.boxes):
        row, place = divmod(number, IN_A_ROW)
        box.x, box.y = MARGIN + place * (WIDTH + BETWEEN), MARGIN + row * (HEIGHT + BETWEEN)


def _curve(drawing: Drawing, layers: _Layers, parent: int, child: int) -> str:
    """Return the path from the right side of a box to the left side of another, past the boxes between them."""
    start, end = drawing.boxes[parent], drawing.boxes[child]
    x, y = start.x + WIDTH, start.y + HEIGHT / 2
    path = f"M{x:.0f} {y:.0f}"
    for to_x, to_y in [*(layers.at[place] for place in layers.passing[parent, child]), (end.x, end.y + HEIGHT / 2)]:
        middle = (x + to_x) / 2
        path += f"C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"
        x, y = to_x, to_y
        if (to_x, to_y) != (end.x, end.y + HEIGHT / 2):
            x += WIDTH
            path += f"H{x:.0f}"
    return path


def _box(steps: Sequence[DrawnStep], node: Node) -> Box:
    first, many = steps[node.steps[0]], len(node.steps)
    name = first.name or first.kind
    if many == 1:
        about = f"{first.kind} · job {first.job}" if first.name else f"job {first.job}"
        return Box(
            _cut(name), f"{name}: {first.kind}, job {first.job}, {first.state}", _cut(about, ABOUT), first.state, first.job
        )
    states = Counter(steps[place].state for place in node.steps)
    label = f"{first.kind} ({many:,})"
    about = counted(states)
    return Box(_cut(label), f"{label}: {about}", _cut(about, ABOUT), _state(states), None)


def _state(states: Counter[str]) -> str:
    """Return the state that stands for those of several steps: the worst, else the one that is under way."""
    for state in ("discarded", "cancelled", "running", "retryable", "available", "scheduled", "waiting", "ending"):
        if states[state]:
            return state
    return "completed"


def _cut(text: str, length: int = LABEL) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
