"""The gatekeeper's memory is small, and bounded whatever waits; its rules are for the simulation (tests/simulation/gate)."""

import tracemalloc

import pytest

from fastq.lead.gate.keeper import LARGEST_WINDOW, Keeper
from fastq.lead.gate.keys import job_of, place_of, priority_of

QUEUE = "default"
KEYS, SPARE = 10_000, 40  # a table of names that has just grown takes some more


def gates(key, at_most=1):
    return f'[["limit", "mail-api", "{key}", 1, {at_most}]]'


def knowing():
    keeper = Keeper({})
    keeper.knows_lines = True
    return keeper


@pytest.mark.parametrize("jobs", [1, 7])
def test_a_million_waiting_jobs_of_one_key_are_some_hundred_places(jobs):
    keeper = knowing()
    keeper.counts(QUEUE, gates(1), 1)

    for job in range(1, 1_000_000, jobs):
        keeper.came(QUEUE, gates(1), jobs, place_of(1, job))

    (line,) = keeper.every_line()
    (key,) = line.keys
    assert len(line.waiting) <= 2 * LARGEST_WINDOW
    assert not isinstance(key.standing, list)


LIMIT, RATE, FAIR = (
    '[["limit", "mail-api", "%d", 1, 1]]',
    '[["rate", "mail-api", "%d", 1, 1, [60.0, 0, "wait"]]]',
    '[["fair", "mail-api", "%d", 1, 10000]]',
)


@pytest.mark.parametrize(
    ("text", "waiting", "most"),
    [(LIMIT, 0, 364), (LIMIT, 3, 484), (RATE, 0, 430), (RATE, 3, 674), (FAIR, 0, 400), (FAIR, 3, 628)],
    ids=["a limit", "a limit, 3 wait", "a rate", "a rate, 3 wait", "a fair gate", "a fair gate, 3 wait"],
)
def test_a_key_with_a_job_that_runs_takes_some_hundred_bytes(text, waiting, most):
    """The figures are those of 100,000 keys, with CPython 3.11."""
    keeper = knowing()
    tracemalloc.start()
    try:
        for key in range(KEYS):
            keeper.counts(QUEUE, text % key, 1)
            for job in range(waiting):
                keeper.came(QUEUE, text % key, 1, place_of(1, 3 * key + job + 1))
        keeper.choose(KEYS)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used / KEYS <= most + SPARE


def test_a_line_that_is_its_key_goes_and_comes_while_another_line_keeps_the_key():
    keeper = knowing()
    keeper.counts(QUEUE, gates("a", at_most=2), 1)
    keeper.came("other", gates("a", at_most=2), 1, place_of(1, 1))
    keeper.came("other", gates("a", at_most=2), 1, place_of(1, 2))
    assert len(keeper.choose(10)) == 1

    keeper.freed(QUEUE, gates("a", at_most=2), 1)
    assert [line.queue for line in keeper.every_line()] == ["other"]
    assert [job_of(place) for place, _ in keeper.choose(10)] == [2]
    keeper.came(QUEUE, gates("a", at_most=2), 1, place_of(1, 3))
    assert not keeper.choose(10)

    keeper.freed("other", gates("a", at_most=2), 2)
    assert [(job_of(place), line.queue) for place, line in keeper.choose(10)] == [(3, QUEUE)]
    keeper.freed(QUEUE, gates("a", at_most=2), 1)
    assert not keeper.lines
    assert not keeper.gates


@pytest.mark.parametrize(("priority", "job"), [(0, 0), (1, 1), (4, 2**60 - 1)])
def test_a_place_is_a_priority_and_a_job_in_eight_bytes(priority, job):
    place = place_of(priority, job)

    assert (priority_of(place), job_of(place)) == (priority, job)
    assert place < 2**63


def test_the_number_in_the_code_is_that_of_the_line_that_came_last():
    keeper = knowing()
    for job in range(1, 4):
        keeper.came(QUEUE, gates("a", at_most=1), 1, place_of(1, job))
    assert len(keeper.choose(10)) == 1

    keeper.came(QUEUE, gates("a", at_most=2), 1, place_of(1, 9))

    assert [job_of(place) for place, _ in keeper.choose(10)] == [2]


def test_jobs_that_come_together_to_a_line_without_others_are_not_looked_for_among_those_that_have_gone():
    keeper = knowing()
    keeper.counts(QUEUE, gates("a"), 1)

    keeper.came(QUEUE, gates("a"), 5, place_of(1, 1_000))
    keeper.came(QUEUE, gates("a"), 5, place_of(1, 500))  # of a transaction that was committed late

    (line,) = keeper.empty(10)
    assert line.after == place_of(1, 500) - 1
    keeper.read(line, [], 16)
    keeper.came(QUEUE, gates("a"), 5, place_of(1, 2_000))
    assert line.after == place_of(1, 2_000) - 1
