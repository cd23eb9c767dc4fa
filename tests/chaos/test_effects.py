"""The account of the chaos of effects sees its faults; a short run of it. `python -m tests.chaos.effects` is the long one."""

import pytest

from tests.chaos.effects import parser, run
from tests.chaos.history import Reading, cycle_in, judge

WHOLE = {1: [10, 20, 30], 2: [10, 30]}
EXPECTED = {10: [1, 2], 20: [1], 30: [1, 2]}
READINGS = [Reading(10, 1, []), Reading(20, 1, [10]), Reading(30, 2, [10])]


def test_a_history_in_which_each_append_is_there_once_is_clean():
    assert judge(WHOLE, READINGS, EXPECTED).clean


@pytest.mark.parametrize(
    ("lists", "readings", "fault", "found"),
    [
        ({1: [10, 20, 30], 2: [10]}, [], "lost", [(30, 2)]),
        ({1: [10, 20, 30, 20], 2: [10, 30]}, [], "doubled", [(20, 1)]),
        ({1: [10, 20, 40, 30], 2: [10, 30]}, [], "foreign", [(40, 1)]),
        (WHOLE, [Reading(30, 1, [10, 20, 50])], "unreal", [(30, 50)]),
        (WHOLE, [Reading(30, 1, [20])], "torn", [(30, 1)]),
    ],
)
def test_each_fault_of_a_history_is_found(lists, readings, fault, found):
    judged = judge(lists, readings, EXPECTED)

    assert list(getattr(judged, fault)) == found
    assert not judged.clean


def test_transactions_that_came_before_each_other_are_a_cycle():
    judged = judge({1: [10, 20], 2: [20, 10]}, [], {10: [1, 2], 20: [1, 2]})

    assert sorted(judged.cycle) == [10, 20]


def test_a_reading_is_part_of_a_cycle():
    # 20 has seen 10 in one list; 10 comes after it in another.
    assert sorted(judge({1: [10], 2: [20, 10]}, [Reading(20, 1, [10])], {10: [1, 2], 20: [2]}).cycle) == [10, 20]


@pytest.mark.parametrize(
    ("graph", "cycle"),
    [({}, []), ({1: [2], 2: [3]}, []), ({1: [2, 3], 2: [4], 3: [4]}, []), ({1: [2], 2: [3], 3: [2]}, [2, 3]), ({1: [1]}, [1])],
)
def test_a_graph_has_a_cycle_or_none(graph, cycle):
    assert cycle_in(graph) == cycle


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_effect_is_there_once_while_processes_die_and_connections_are_cut_at_their_commit(database, tmp_path):
    words = ["--jobs", "600", "--kills", "6", "--supervisor-kills", "1", "--thefts", "6", "--crashes", "0", "--cuts", "0.04"]

    figures = run(database, tmp_path, parser().parse_args(words))

    assert figures["passed"], figures
    assert figures["asked"].keys() == {"true", "false"}
