"""A short run of the chaos of steps. `python -m tests.chaos.steps` is the long one."""

import pytest

from tests.chaos.effects import parser
from tests.chaos.steps import run


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_step_runs_again_behind_its_record_while_processes_die_and_connections_are_cut_at_records(database, tmp_path):
    words = ["--jobs", "300", "--kills", "6", "--supervisor-kills", "1", "--thefts", "6", "--crashes", "0", "--cuts", "0.04"]

    figures = run(database, tmp_path, parser().parse_args(words))

    assert figures["passed"], figures
    assert figures["runs"] > figures["steps"]
