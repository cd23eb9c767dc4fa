"""A short run of the chaos of isolated jobs. `python -m tests.chaos.isolated` is the long one."""

import argparse

import pytest

from fastq.schema.migrate import migrate
from tests.chaos.isolated import run
from tests.chaos.servers import Servers, scratch


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jobs_that_crash_leak_and_hang_cost_their_neighbours_nothing_and_their_worker_process_no_memory(tmp_path):
    with scratch() as folder, Servers(folder) as servers:
        migrate(url := servers.create("isolated"))
        figures = run(url, tmp_path, argparse.Namespace(jobs=800, procs=2, threads=8, seed=1))

    assert figures["passed"], figures
