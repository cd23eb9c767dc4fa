"""No schedule of some hundred leaves a job behind; a cursor with a rule broken does. `make simulation` runs thousands of them."""

import pytest

from tests.simulation import peek_mutants
from tests.simulation.arrows import MACHINES, arrows_of, watched
from tests.simulation.mutants import MUTANTS, living
from tests.simulation.world import World, replay, replay_many, simulate, simulate_many

SEEDS, MANY_SEEDS, CHUNK = 300, 100, 50
ARROW_SEEDS = 150  # each arrow is gone along ten times and more in them
BOUND = 300  # seeds within which a mutant is found; most are within five, the rarest within a hundred


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.further) for first in range(CHUNK, SEEDS, CHUNK))])
def test_every_job_is_claimed_once_and_none_is_left_behind_whatever_the_schedule(first):
    for seed in range(first, first + CHUNK):
        try:
            simulate(seed)
        except Exception as error:  # noqa: BLE001 - whatever a seed meets is to be told with the seed
            pytest.fail(f"seed {seed}: {error!r}; replay it by: {replay(seed)}")


@pytest.mark.parametrize("first", range(0, MANY_SEEDS, CHUNK))
def test_with_several_queues_that_are_looked_at_together_none_is_left_behind_either(first):
    for seed in range(first, first + CHUNK):
        try:
            simulate_many(seed)
        except Exception as error:  # noqa: BLE001 - as above
            pytest.fail(f"seed {seed}: {error!r}; replay it by: {replay_many(seed)}")


@pytest.mark.further
@pytest.mark.parametrize("name", sorted(peek_mutants.MUTANTS))
def test_looks_at_all_queues_without_one_of_their_rules_are_found(name):
    with peek_mutants.living(name):
        for seed in range(BOUND):
            try:
                simulate_many(seed)
            except AssertionError:
                return
    pytest.fail(f"{name} lives through {BOUND} seeds")


@pytest.mark.further
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_cursor_without_one_of_its_rules_is_found(name):
    with living(name):
        for seed in range(BOUND):
            try:
                simulate(seed)
            except AssertionError:
                return
    pytest.fail(f"{name} lives through {BOUND} seeds")


def test_the_machines_go_along_all_of_their_arrows_and_along_no_other():
    with watched() as gone:
        for seed in range(ARROW_SEEDS):
            simulate(seed)

    assert {name: arrows_of(name) - set(arrows) for name, arrows in gone.items()} == {name: set() for name in MACHINES}


def test_the_same_seed_is_the_same_run():
    first, again, other = simulate(7), simulate(7), simulate(8)

    assert first == again
    assert first.digest != other.digest


def test_a_run_that_fails_takes_its_processes_with_it():
    world = World(7)

    def check():
        assert all(not host.turns_taken for host in world.hosts), "a process is in its turn"

    world.check = check
    with pytest.raises(AssertionError, match="a process is in its turn"):
        world.run()

    assert [host.turns_taken for host in world.hosts] == [0, 0]
