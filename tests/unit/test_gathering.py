"""The inbox in which jobs gather for bundles."""

import json
import time
from dataclasses import dataclass

import pytest

from fastq import Args, Registry, Worker
from fastq.board.board import Board
from fastq.work.bundles.gathering import Gathering
from fastq.work.codec.codec import decode
from fastq.work.shared.lane import Mark
from tests.codec.claims import claimed

registry = Registry()


@dataclass
class Plain(Args, kind="plain"):
    key: int = 0


@dataclass
class Same(Args, kind="same"):
    key: int = 0


@registry.register
class PlainWorker(Worker[Plain]):
    up_to, within = 3, 50.0

    def work_many(self, jobs):
        pass


@registry.register
class SameWorker(Worker[Same]):
    up_to, within, same = 3, 1.0, "key"

    def work_many(self, jobs):
        pass


@pytest.fixture
def cells():
    return Board.make([2], 1, 64).cells(0)


@pytest.fixture
def inbox(cells):
    return Gathering(cells, 20)


def jobs_of(*kinds_and_keys):
    return decode(claimed([(kind, json.dumps({"key": key}).encode()) for kind, key in kinds_and_keys]), registry.workers).good


def keys(bundle):
    return None if bundle is None else (bundle.worker.kind.name, [job.args.key for job in bundle.jobs])


def test_a_group_is_ready_when_it_is_full_or_when_its_first_job_has_waited(inbox):
    inbox.extend(jobs_of(*[("plain", number) for number in range(4)]))
    now = time.monotonic()

    assert keys(inbox.take(now)) == ("plain", [0, 1, 2])
    assert keys(inbox.take(now)) is None
    assert now + 49 < inbox.due() <= now + 50
    inbox.extend(jobs_of(("plain", 4)))
    assert inbox.due() <= now + 50  # by the first of them, not by the last
    assert keys(inbox.take(now + 51)) == ("plain", [3, 4])
    assert (len(inbox), inbox.due()) == (0, None)


def test_kinds_and_values_are_kept_apart(inbox):
    inbox.extend(jobs_of(("plain", 1), ("same", 1), ("same", 2), ("plain", 2), ("same", 1)))
    later = time.monotonic() + 200

    assert [keys(inbox.take(later)) for _ in range(4)] == [("plain", [1, 2]), ("same", [1, 1]), ("same", [2]), None]


def test_a_group_that_waits_is_not_passed_by_for_ever_by_those_that_fill_at_once(inbox):
    inbox.extend(jobs_of(("same", 1)))
    inbox.extend(jobs_of(*[("same", 2)] * 6))
    now = time.monotonic()

    assert keys(inbox.take(now)) == ("same", [2, 2, 2])
    assert keys(inbox.take(now + 2)) == ("same", [1])
    assert keys(inbox.take(now + 2)) == ("same", [2, 2, 2])


def test_the_oldest_group_is_ready_where_no_more_jobs_can_come(inbox):
    inbox.extend(jobs_of(*[("same", number) for number in range(20)]))
    now = time.monotonic()

    assert inbox.due() == 0.0
    assert keys(inbox.take(now)) == ("same", [0])
    assert keys(inbox.take(now)) is None


def test_a_mark_says_once_when_the_inbox_runs_low(inbox):
    jobs = jobs_of(*[("plain", number) for number in range(7)])
    inbox.extend([*jobs[:5], Mark.REFILL, *jobs[5:]])
    inbox.take(0.0)

    assert not inbox.runs_low()
    inbox.take(0.0)
    assert [inbox.runs_low(), inbox.runs_low()] == [True, False]  # one of two is left


def test_all_jobs_are_seen_and_taken_out_and_stay_on_the_board(inbox, cells):
    jobs = jobs_of(*[("plain", number) for number in range(4)], ("same", 1))
    inbox.extend(jobs)
    ids = {job.id for job in jobs}

    assert {job.id for job in inbox.copy()} == ids
    assert cells.outstanding() == (ids, set())
    assert {job.id for job in inbox.clear()} == ids
    assert (len(inbox), inbox.due(), cells.outstanding()) == (0, None, (ids, set()))


def test_a_value_that_cannot_be_told_makes_a_job_come_alone(inbox):
    jobs = jobs_of(("same", 1), ("same", 1))
    del jobs[0].args.key
    inbox.extend(jobs)

    assert [len(inbox.take(time.monotonic() + 2).jobs) for _ in range(2)] == [1, 1]
