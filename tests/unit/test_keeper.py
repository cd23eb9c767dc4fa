"""The gatekeeper's memory is small, and bounded whatever waits; its rules are for the simulation (tests/simulation/gate)."""

import tracemalloc

import pytest

from fastq.lead.gate.keeper import LARGEST_WINDOW, Keeper
from fastq.lead.gate.keys import job_of, place_of, priority_of

QUEUE = "default"
KEYS, BYTES = 10_000, 750  # 608 were measured with 100,000 keys; a table of names that has just grown takes some more


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


def test_a_key_in_use_takes_some_hundred_bytes():
    keeper = knowing()
    tracemalloc.start()
    try:
        for key in range(KEYS):
            keeper.counts(QUEUE, gates(key), 1)
            for job in range(3):
                keeper.came(QUEUE, gates(key), 1, place_of(1, 3 * key + job + 1))
        keeper.choose(KEYS)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used / KEYS <= BYTES


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
