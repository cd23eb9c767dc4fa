"""Lay out a graph as lines of text, downwards: each node in a lane, and the edges as lanes that go on to the nodes below.

Called by drawing.py alone, in the main thread of the command `fastq workflows`. The module keeps no state: each call of `rows`
makes one list of lanes, which `_free` and `_trim` change in place and which nobody else sees.

Invariant: a lane leads to one node; lanes that lead to the same one are joined above it. It deliberately knows no names and no
states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

NODE = "o"
"""The place of a node in its row; the drawing puts a sign there that tells its state."""


def rows(children: Sequence[Collection[int]]) -> Iterator[tuple[str, int | None]]:
    """Yield the rows for nodes in topological order, given the children of each: the text, and its node or None."""
    lanes: list[int | None] = []
    for node, after in enumerate(children):
        mine = [lane for lane, target in enumerate(lanes) if target == node]
        if len(mine) > 1:
            yield _drawn(lanes, mine[0], dict.fromkeys(mine[1:], ("┴", "╯", ""))), None
            for lane in mine[1:]:
                lanes[lane] = None
        own = mine[0] if mine else _free(lanes)
        lanes[own] = node
        _trim(lanes)
        yield _line(lanes, {own: NODE}), node
        below = sorted(after)
        lanes[own] = below[0] if below else None
        joined: dict[int, tuple[str, str, str]] = {}
        for child in below[1:]:
            if child in lanes:
                joined[lanes.index(child)] = ("┼", "┤", "├")
            else:
                lane = _free(lanes)
                joined[lane] = ("┬", "╮", "╭")
                lanes[lane] = child
        if joined:
            yield _drawn(lanes, own, joined), None
        _trim(lanes)


def _free(lanes: list[int | None]) -> int:
    """Return the first lane that leads nowhere."""
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)


def _trim(lanes: list[int | None]) -> None:
    while lanes and lanes[-1] is None:
        lanes.pop()


def _line(lanes: Sequence[int | None], signs: dict[int, str]) -> str:
    return " ".join(signs.get(lane, " " if target is None else "│") for lane, target in enumerate(lanes)).rstrip()


def _drawn(lanes: Sequence[int | None], own: int, others: dict[int, tuple[str, str, str]]) -> str:
    """Draw the row in which a lane is joined with others, which are given with their signs between, at the right, at the left."""
    left, right = min(own, *others), max(own, *others)
    cells = [*" ".join(" " if target is None else "│" for target in lanes)]
    for place in range(2 * left, 2 * right):
        if cells[place] == " ":
            cells[place] = "─"
    for lane, (between, at_right, at_left) in others.items():
        cells[2 * lane] = at_right if lane == right else at_left if lane == left else between
    cells[2 * own] = "├" if own == left else "┤" if own == right else "┼"
    return "".join(cells).rstrip()
