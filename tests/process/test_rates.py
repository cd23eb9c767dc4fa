"""Rates as their users see them: real processes, and the moments of the claims."""

import itertools

import pytest

from fastq import Client
from tests.process.paced import AT_MOST, BURST, PER, Paced

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.paced:registry"
STARTS = """select extract(epoch from attempted_at)::float8 from fastq.job_archive
    where args ->> 'account' = %s order by attempted_at"""


def starts_of(jobs, account):
    return [at for (at,) in jobs.execute(STARTS, str(account))]


def most_in_a_window(starts):
    return max(sum(begin <= at <= begin + PER for at in starts) for begin in starts)


def test_no_window_has_more_starts_than_the_rate_and_another_account_does_not_wait(supervise, jobs, database):
    with Client(database) as client:
        client.enqueue_many([Paced(1)] * 12 + [Paced(2)] * 2)
    supervise(APP, procs=2, queues="default=8")
    jobs.wait_until_none_is_left()

    assert most_in_a_window(starts_of(jobs, 1)) <= AT_MOST + BURST
    assert starts_of(jobs, 2)[-1] < starts_of(jobs, 1)[-1]


def test_a_job_that_met_a_429_spends_no_attempt_and_none_of_its_key_starts_meanwhile(supervise, jobs, database):
    with Client(database) as client:
        (first, *_) = client.enqueue_many([Paced(1, refused=True), *[Paced(1)] * 3])
    supervise(APP, queues="default=8")
    jobs.wait_until_none_is_left()

    told = jobs.told("start 1")
    refused, again = (line for line in told if line.id == first)
    assert (refused.attempt, again.attempt) == (1, 1)
    assert max(after.at - before.at for before, after in itertools.pairwise(sorted(told, key=lambda line: line.at))) > 1.5
