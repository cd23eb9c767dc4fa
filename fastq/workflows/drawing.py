"""Draw a workflow as text: a row for each step, with its state and job, and beside them lines that say what runs after what.

Called in the main thread of the command `fastq workflows`, which makes the steps and prints the lines. The module keeps no state:
all that it makes belongs to one call. A large workflow is folded (folding.py) until it has MOST rows; a row that stands for
several steps has their number, and how many of them are in which state.

Invariant: no line is wider than asked for. It deliberately knows no terminal: colours and the encoding are the command's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from fastq.workflows import lanes
from fastq.workflows.folding import DrawnStep, Folding, Node, foldings

MOST = 40
"""Rows for nodes: what a person looks through, a guess."""

WIDTH = 80
"""Columns of a terminal that nobody has made wider."""

GRAPH, LABEL = 24, 28
"""Columns of the lines, and of the names. A graph that takes more is folded further, a name that does is cut."""

SHARED = 3
"""Characters from which on a common beginning of names says more than the kind."""

COMPLETED, FAILED, RUNNING, OPEN = "●✗▶○"
IN_ASCII = str.maketrans("●✗▶○│─├┤┼┬┴╮╯╭…", "*x>o|-++++++++~")
"""The signs of a drawing for a terminal that has no others."""

ORDER = ("completed", "running", "available", "scheduled", "retryable", "waiting", "cancelled", "discarded")
"""The states in the order in which they are told."""


def drawn(steps: Sequence[DrawnStep], width: int = WIDTH) -> list[str]:
    """Return the lines of the drawing of a workflow, without its heading."""
    folding, graph, wide = _fitting(steps)
    names = [_name(steps, node) for node in folding.nodes]
    labels = [_label(name, node) for name, node in zip(names, folding.nodes, strict=True)]
    label = min(LABEL, max(map(len, labels), default=0))
    lines = []
    for text, number in graph:
        if number is None:
            lines.append(text)
            continue
        node = folding.nodes[number]
        row = text.replace(lanes.NODE, _sign(steps, node)).ljust(wide)
        about = "; ".join(_about(steps, node, names, lanes=folding.lanes))
        lines.append(_cut(f"{row}  {_cut(labels[number], label):{label}s}  {about}".rstrip(), width))
    if folding.nodes and not folding.lanes and len(folding.nodes) < len(steps):
        lines.append(_cut("(too many different steps to draw: these are the kinds)", width))
    return lines


def _fitting(steps: Sequence[DrawnStep]) -> tuple[Folding, list[tuple[str, int | None]], int]:
    """Return the first way to draw the steps that is narrow enough, else the last one; its lines, and how wide they are."""
    found = Folding([]), list[tuple[str, "int | None"]](), 0
    for folding in foldings(steps, MOST):
        graph = list(_graph(folding))
        found = folding, graph, max((len(text) for text, _ in graph), default=0)
        if found[-1] <= GRAPH:
            break
    return found


def _graph(folding: Folding) -> Iterable[tuple[str, int | None]]:
    """Return the rows of the graph, with a node or without."""
    if not folding.lanes:
        return [(lanes.NODE, number) for number in range(len(folding.nodes))]
    children: list[list[int]] = [[] for _ in folding.nodes]
    for number, node in enumerate(folding.nodes):
        for parent in node.after:
            children[parent].append(number)
    return lanes.rows(children)


def counted(states: Counter[str]) -> str:
    """Write how many steps are in which state."""
    known = [state for state in ORDER if states[state]]
    return ", ".join(f"{states[state]:,} {state}" for state in [*known, *sorted(states.keys() - {*ORDER})])


def _name(steps: Sequence[DrawnStep], node: Node) -> str:
    """Return the name of a node: that of its step; of several, their kind, or the beginning that their names share."""
    first = steps[node.steps[0]]
    if len(node.steps) == 1:
        return first.name or first.kind
    names = [steps[place].name or "" for place in node.steps]
    least, most = min(names), max(names)  # all others begin as these two do
    shared = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(least, most, strict=False)))
    return f"{shared}…" if len(shared) >= SHARED else first.kind


def _label(name: str, node: Node) -> str:
    return f"{name} ({len(node.steps):,})" if len(node.steps) > 1 else name


def _sign(steps: Sequence[DrawnStep], node: Node) -> str:
    states = {steps[place].state for place in node.steps}
    if states & {"cancelled", "discarded"}:
        return FAILED
    if "running" in states:
        return RUNNING
    return COMPLETED if states == {"completed"} else OPEN


def _about(steps: Sequence[DrawnStep], node: Node, names: Sequence[str], *, lanes: bool) -> Iterator[str]:
    """Tell the state of a node, its job, and of its edges those that no lane shows or that need no success."""
    many = len(node.steps)
    if many == 1:
        step = steps[node.steps[0]]
        yield f"{step.state}, job {step.job}"
    else:
        yield counted(Counter(steps[place].state for place in node.steps))
    if node.lines:
        yield "one after the other" if node.lines == 1 else f"in {node.lines:,} lines of {many // node.lines:,}"
    if not lanes and (before := [names[parent] for parent, run in node.after.items() if not run]):
        yield f"after {', '.join(before)}"
    if anyway := [names[parent] for parent, run in node.after.items() if run]:
        yield f"however {', '.join(anyway)} ends"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
