"""Random workflows, and how they must end: the oracle of the tests that run them (tests/db, tests/chaos)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastq import Workflow

COMPLETED, CANCELLED, DISCARDED = "completed", "cancelled", "discarded"

After = Sequence[Mapping[int, bool]]
"""For each step the steps before it, each with whether it runs however that ends."""


def built(name: str, after: After, item: Callable[[int], Any], **callbacks: Any) -> Workflow:
    """Build the workflow of a graph; `item` makes the job of each place."""
    flow = Workflow(name, **callbacks)
    steps: list[Any] = []
    for place, before in enumerate(after):
        edges = [steps[parent].ended if run else steps[parent] for parent, run in before.items()]
        steps.append(flow.add(item(place), name=f"s{place}", after=edges))
    return flow


def ends(after: After, fates: Sequence[str], kept: Mapping[int, str] | None = None) -> list[str]:
    """Say how each step must end, given how its job ends if it runs; those that are `kept` have ended, and run no more."""
    found: list[str] = []
    for place, (before, fate) in enumerate(zip(after, fates, strict=True)):
        fails = any(not run and found[parent] != COMPLETED for parent, run in before.items())
        found.append((kept or {}).get(place) or (CANCELLED if fails else fate))
    return found


def runs(after: After, ended: Sequence[str]) -> set[int]:
    """Return the steps whose jobs run at all."""
    return {
        place for place, before in enumerate(after) if all(run or ended[parent] == COMPLETED for parent, run in before.items())
    }


def called(ended: Sequence[str]) -> set[str]:
    """Return the callbacks that must be enqueued."""
    events = {"on_finish"}
    if all(state == COMPLETED for state in ended):
        events.add("on_success")
    if DISCARDED in ended:
        events.add("on_discard")
    return events
