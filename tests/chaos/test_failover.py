"""Short runs of the failover table and of its further modes; `make failover` makes the long ones, and keeps to the bounds."""

import shutil

import pytest

from tests.chaos import failover, faults, freeze, schedule, two_leaders, witness
from tests.chaos.result import Result, table
from tests.chaos.servers import Servers, scratch

pytestmark = [pytest.mark.process, pytest.mark.timeout(240), pytest.mark.further]
TTL = 1.0  # s, the shortest that there is
BUSY = 2  # times the bound: the machine may be busy


@pytest.fixture(scope="module")
def servers():
    """Give servers that a test may ill-treat, and the folder for what they and their clients say."""
    with scratch() as folder, Servers(folder) as servers:
        yield servers, folder


def assert_led_again(result):
    assert result.problems == []
    assert len(result.takeovers) == result.cycles
    assert result.stale == 0


@pytest.mark.lease("L22", "L56")
def test_another_supervisor_leads_within_the_ttl_and_half_a_second_when_the_leader_is_killed(database, tmp_path):
    witness.install(database)
    scene = faults.kill(database, tmp_path, TTL)
    scene.bound *= BUSY

    with scene.candidates:
        result = faults.measure("kill", scene, 3)

    assert_led_again(result)
    assert result.changed == 3
    assert len(result.terms) == 4


@pytest.mark.slow
@pytest.mark.lease("L44", "L56")
def test_a_leader_that_stops_hands_over_in_a_quarter_of_a_second_while_its_jobs_still_run(database, tmp_path):
    witness.install(database)
    scene = faults.graceful(database, tmp_path, TTL)
    scene.bound *= BUSY

    with scene.candidates:
        result = faults.measure("graceful", scene, 3)

    assert_led_again(result)
    assert result.changed == 3


@pytest.mark.slow
@pytest.mark.lease("L22", "L29", "L56")
@pytest.mark.parametrize("fault", sorted(failover.NAMES.keys() - {"graceful", "kill"}))
def test_somebody_leads_soon_after_every_kind_of_fault_and_no_stale_write_is_committed(servers, fault):
    if fault == "pooler" and shutil.which("pgbouncer") is None:
        pytest.skip("no pgbouncer on the PATH")

    result = failover.row(fault, 2 * failover.SHARE[fault], TTL, *servers, slack=BUSY)

    assert_led_again(result)


@pytest.mark.slow
@pytest.mark.lease("L10", "L20", "L33")
def test_a_leader_frozen_inside_a_chore_writes_nothing_when_it_goes_on_after_another_has_taken_over(database, tmp_path):
    result = freeze.run(database, tmp_path, len(freeze.POINTS), TTL)

    assert_led_again(result)
    assert result.figures["fenced"] >= 3, "the three statements that were on the wire"


@pytest.mark.slow
@pytest.mark.lease("L20")
def test_the_witness_sees_stale_writes_when_the_statements_do_not_ask_for_the_term(database, tmp_path):
    result = freeze.run(database, tmp_path, 3, TTL, freeze.POINTS[:3], freeze.unfenced(tmp_path))

    assert result.stale >= 3, f"one for each statement that was on the wire: {result}"


@pytest.mark.slow
@pytest.mark.lease("L53", "L54")
def test_two_leaders_at_once_lose_and_double_nothing(database, tmp_path):
    result = two_leaders.run(database, tmp_path, 12)

    assert result.problems == []


@pytest.mark.slow
def test_a_schedule_ticks_each_second_though_leaders_are_killed(database, tmp_path):
    result = schedule.run(database, tmp_path, 10, TTL)

    assert result.problems == []
    assert result.cycles >= 3


def test_the_table_shows_a_bound_that_was_missed():
    good, bad = Result("good", 1, 1.5), Result("bad", 1, 1.5)
    good.add(1.9, outage=0.5)
    bad.add(1.9, outage=0.3)

    assert (good.passed, bad.passed) == (True, False)
    assert good.as_json()["bound_s"] == 2.0
    assert ["**missed**" in line for line in table([good, bad]).splitlines()[2:]] == [False, True]
