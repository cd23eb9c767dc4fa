"""Ask what one claim costs, by its size: the statement, and the columns made of its answer. One connection, nobody else."""

import pytest

from bench.pieces import Claimer

ROUNDS = 20


@pytest.mark.parametrize("batch", [1, 100, 2_000, 10_000])
def test_claim(measured, size, config, connection, batch):
    claimer = Claimer(config, connection, size(batch) * (ROUNDS + 2))
    jobs = size(batch)

    def claim():
        assert sum(map(len, claimer.claim(jobs))) == jobs

    measured(jobs, claim, rounds=ROUNDS)
    claimer.session.close()
