"""The arrows of the machines: which of them the simulation goes along, and that it goes along no other.

A machine is a class with a `state`, and a table ARROWS beside it: from a state, by an event, which is a method, to states. The
tables are of events in the turn, so no process loses patience while they are watched.
"""

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps

import pytest

from fastq.work.cursor import claims, cursor, looks, low_water
from tests.simulation.world import Weather

MACHINES = {
    "mark": (low_water.LowWater, low_water.ARROWS),
    "re-scan": (looks.Rescan, looks.ARROWS),
    "backlog": (cursor.Backlog, cursor.ARROWS),
    "claim under way": (claims.UnderWay, claims.ARROWS),
}


def arrows_of(name):
    """Return all arrows of a machine, each as (from, event, to)."""
    _, table = MACHINES[name]
    return {(before, event, after) for (before, event), ends in table.items() for after in ends}


@contextmanager
def watched():
    """Give a count of the arrows that the machines go along meanwhile, by machine; one that is in no table is an error."""
    gone = {name: Counter() for name in MACHINES}
    draws = Weather.of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Weather, "of", lambda dice: replace(draws(dice), impatience=0))
        for name, (machine, table) in MACHINES.items():
            for event in {event for _, event in table}:
                patch.setattr(machine, event, watching(name, getattr(machine, event), table, gone[name]))
        yield gone


def watching(name, method, table, gone):
    event = method.__name__

    @wraps(method)
    def call(machine, *args, **options):
        before = machine.state
        answer = method(machine, *args, **options)
        after = machine.state
        assert after in table.get((before, event), ()), f"{name}: no arrow leads from {before} by {event} to {after}"
        gone[before, event, after] += 1
        return answer

    return call
