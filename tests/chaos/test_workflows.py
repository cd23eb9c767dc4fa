"""A short run of the chaos of workflows. `python -m tests.chaos.workflows` is the long one."""

import argparse

import pytest

from tests.chaos.workflows import run


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_job_runs_in_its_order_and_each_callback_once_while_processes_and_leaders_die(database, tmp_path):
    options = argparse.Namespace(jobs=500, graphs=1, kills=6, leader_kills=2, procs=4, threads=4, longest=0.1, seed=1)

    figures = run(database, tmp_path, options)

    assert figures["passed"], figures
