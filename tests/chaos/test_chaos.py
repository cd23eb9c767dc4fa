"""Jobs through kills: nothing is lost, nothing runs twice without a reason, and what was cut off goes on at once."""

import pytest

from tests.chaos.run import Plan, run

pytestmark = [pytest.mark.process, pytest.mark.further]


def assert_all_is_well(figures, plan):
    assert figures["problems"] == []
    assert (figures["lost"], figures["unexplained_duplicates"], figures["overlapping"]) == (0, 0, 0)
    assert (figures["never_committed"], figures["miscounted_attempts"]) == (0, 0)
    assert (figures["kills"], figures["supervisor_kills"]) == (plan.kills, plan.supervisor_kills)
    assert figures["enqueued"] == figures["completed"] == plan.jobs
    assert figures["passed"]


@pytest.mark.timeout(120)
def test_no_job_is_lost_when_worker_processes_and_a_supervisor_are_killed(database, tmp_path):
    # Some kills hit a process that has nothing at work or is still starting; that all eight do is not to be seen.
    plan = Plan(jobs=4_000, kills=8, supervisor_kills=1, seed=1)

    figures = run(plan, database, tmp_path)

    assert_all_is_well(figures, plan)
    assert figures["explained_duplicates"] > 0, "the kills hit nobody at work, so this run showed nothing"
    assert figures["recovery_p50_s"] < 2.0, "twice the goal: the machine may be busy"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [2, 3])
def test_no_job_is_lost_in_a_long_run_of_kills(database, tmp_path, seed):
    plan = Plan(jobs=40_000, kills=40, supervisor_kills=4, procs=3, seed=seed)

    figures = run(plan, database, tmp_path)

    assert_all_is_well(figures, plan)
    assert figures["recovery_p99_s"] < 2.0, "twice the goal: the machine may be busy"
