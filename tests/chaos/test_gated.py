"""The account of the chaos of gates sees what it is to see; a short run of it. `python -m tests.chaos.gated` is the long one."""

import argparse

import pytest

from fastq.schema.migrate import migrate
from tests.chaos.checker import Fault
from tests.chaos.gated import Attempt, attempts, most_at_once, overtaken, run
from tests.chaos.ledger import END, START, Record
from tests.chaos.servers import Servers, scratch


def test_an_attempt_whose_process_was_killed_ended_then():
    records = [
        Record(START, 1, 1, 11, 100),
        Record(END, 1, 1, 11, 150),
        Record(START, 2, 1, 11, 200),
        Record(START, 2, 2, 12, 400),
        Record(END, 2, 2, 12, 500),
        Record(START, 3, 1, 13, 600),
    ]
    faults = [Fault("worker", 300, 11, {11: 310}), Fault("supervisor", 550, 10, {10: 551, 13: 580})]

    assert sorted(attempts(records, faults)) == [(100, 150, 1), (200, 300, 2), (400, 500, 2), (600, 600, 3)]


@pytest.mark.parametrize(
    ("runs", "most"),
    [
        ([], 0),
        ([Attempt(1, 2, 1), Attempt(2, 3, 2)], 1),
        ([Attempt(1, 3, 1), Attempt(2, 4, 2), Attempt(3, 5, 3)], 2),
        ([Attempt(1, 9, 1), Attempt(2, 8, 2), Attempt(3, 4, 3)], 3),
    ],
)
def test_it_counts_the_attempts_that_there_were_at_once(runs, most):
    assert most_at_once(runs) == most


@pytest.mark.parametrize(
    ("runs", "times"),
    [
        ([Attempt(1, 2, 1), Attempt(2, 3, 2)], 0),
        ([Attempt(1, 2, 1), Attempt(3, 4, 1), Attempt(5, 6, 2)], 0),
        ([Attempt(1, 2, 1), Attempt(3, 9, 1), Attempt(5, 6, 2)], 1),
        ([Attempt(1, 2, 2), Attempt(3, 4, 1)], 1),
    ],
)
def test_it_counts_the_jobs_that_have_overtaken_another(runs, times):
    assert overtaken(runs) == times


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_key_has_too_many_and_no_order_is_broken_while_processes_leaders_and_the_server_die(tmp_path):
    options = argparse.Namespace(jobs=3_000, kills=6, leader_kills=2, server_kills=2, procs=4, threads=4, longest=0.1, seed=1)

    with scratch() as folder, Servers(folder) as servers:
        migrate(url := servers.create("gated"))
        figures = run(url, tmp_path, options, servers.crash)

    assert figures["passed"], figures
