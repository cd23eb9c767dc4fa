"""A short run of the chaos of workflows. `python -m tests.chaos.workflows` is the long one."""

import argparse

import pytest

from fastq.schema.migrate import migrate
from tests.chaos.servers import Servers, scratch
from tests.chaos.workflows import run


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_job_runs_in_its_order_and_each_callback_once_while_processes_leaders_and_the_server_die(tmp_path):
    options = argparse.Namespace(
        jobs=500, graphs=1, kills=6, leader_kills=2, server_kills=2, procs=4, threads=4, longest=0.1, seed=1
    )

    with scratch() as folder, Servers(folder) as servers:
        migrate(url := servers.create("workflows"))
        figures = run(url, tmp_path, options, servers.crash)

    assert figures["passed"], figures
