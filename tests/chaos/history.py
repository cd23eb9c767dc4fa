"""Judge a history of appends: each transaction appended numbers to lists, and what it read there came with it.

Pure functions over plain values; the program that makes the history is effects.py. Transactions are named by the number that
they append. The order of a list is the order of its appends, and a transaction that has read a list came after each transaction
that it saw there. A cycle in that order cannot be at any isolation of the server's: not even where transactions see each other's
commits one by one (G0 and G1c in Adya's words). A number that was read and is not there in the end is that of a transaction that
was rolled back (G1a).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Reading(NamedTuple):
    """A list as the transaction found it: before its own append, or without one."""

    transaction: int
    key: int
    seen: Sequence[int]


class Account(NamedTuple):
    """The faults of a history; each is a collection of the transactions that it concerns."""

    lost: Collection[tuple[int, int]]
    """Appends that should be there and are not: transaction and key."""
    doubled: Collection[tuple[int, int]]
    foreign: Collection[tuple[int, int]]
    """Appends that nobody who ended has made."""
    unreal: Collection[tuple[int, int]]
    """Numbers that were read, and are not there: transaction that read, and number."""
    torn: Collection[tuple[int, int]]
    """Readings that are no beginning of their list: transaction and key."""
    cycle: Sequence[int]
    """Transactions of which each came before the next one, and the last before the first."""

    @property
    def clean(self) -> bool:
        """Tell whether there is no fault."""
        return not any(self)


def judge(lists: Mapping[int, Sequence[int]], readings: Iterable[Reading], expected: Mapping[int, Collection[int]]) -> Account:
    """Judge lists by key, the readings, and the keys that each transaction was to append to."""
    counts = {(number, key): times for key, numbers in lists.items() for number, times in Counter(numbers).items()}
    wanted = {(number, key) for number, keys in expected.items() for key in keys}
    after: dict[int, set[int]] = defaultdict(set)
    for numbers in lists.values():
        for earlier, later in pairwise(numbers):
            after[earlier].add(later)
    unreal, torn = [], []
    for reading in readings:
        numbers = lists.get(reading.key, [])
        unreal += [(reading.transaction, number) for number in reading.seen if (number, reading.key) not in counts]
        if list(reading.seen) != list(numbers[: len(reading.seen)]):
            torn.append((reading.transaction, reading.key))
        for number in reading.seen[-1:]:  # those before this one came earlier still: the list says so
            after[number].add(reading.transaction)
    return Account(
        lost=wanted - counts.keys(),
        doubled=[name for name, times in counts.items() if times > 1],
        foreign=counts.keys() - wanted,
        unreal=unreal,
        torn=torn,
        cycle=cycle_in(after),
    )


def cycle_in(after: Mapping[int, Collection[int]]) -> list[int]:
    """Return a cycle of a graph, without recursion: histories are long. An empty list if there is none."""
    done: set[int] = set()
    for start in list(after):
        path: list[int] = []
        on_path: set[int] = set()
        stack = [(start, False)]
        while stack:
            node, left = stack.pop()
            if left:
                path.pop()
                on_path.discard(node)
                done.add(node)
            elif node in on_path:
                return path[path.index(node) :]
            elif node not in done:
                path.append(node)
                on_path.add(node)
                stack.append((node, True))
                stack += [(following, False) for following in after.get(node, ())]
    return []
