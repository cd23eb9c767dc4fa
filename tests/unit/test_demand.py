"""How much is held ready: the pace of what has ended, and how it grows where all that was handed out ran out."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fastq.board.board import Board
from fastq.config import Config
from fastq.work.claim.demand import ENOUGH, GROWTH, LONGEST, PACE_KEPT, PACE_WINDOW, READY, Demand
from fastq.work.cursor.cursor import Cursor
from fastq.work.execute.threads import ThreadLane
from fastq.work.shared.budget import Budget
from fastq.work.shared.lane import Feed, Mark
from tests.unit.test_budget import claimed

EXECUTORS = 4


@pytest.fixture
def config():
    return Config(prefetch=10.0, batch=1_000)  # so long that no pause of a busy machine counts


@pytest.fixture
def feed():
    """Give a feed whose executors are the test: it takes jobs out of the inbox, and says who rests."""
    shared = Board.make([EXECUTORS], 1, 8)
    lane = ThreadLane(shared.lane(0, 0, 0), EXECUTORS, lambda: None)
    made = Feed(0, "default", [lane])
    lane.resting.extend(SimpleNamespace(release=lambda: None) for _ in range(EXECUTORS))
    made.cursor = Cursor(shared, 0, "default", 1.0)
    made.cursor.words.backlog = 1
    return made


@pytest.fixture
def demand(feed, config):
    """Give the demand of that feed."""
    made = Demand(feed, feed.cursor, Budget(config.prefetch_bytes, 8), config)
    made._measured_at = time.monotonic() + 3600.0  # the rounds' own pace is not looked at, but by who sets it back
    return made


def hand_out(feed, count):
    feed.claimed += count
    feed.put([object()] * count, 0)


def end_all(feed):
    """Have all that was handed out end, and all executors rest."""
    lane = feed.lanes[0]
    lane.inbox.clear()
    lane.resting.extend(SimpleNamespace(release=lambda: None) for _ in range(lane.busy()))


def test_nothing_is_held_ready_before_anything_has_ended(feed, demand, config):
    assert demand.prefetch(feed.load()) == 0
    hand_out(feed, EXECUTORS)
    assert demand.prefetch(feed.load()) == 0


def test_what_runs_out_at_once_lets_so_many_times_as_much_be_held_ready(feed, demand, config):
    ready = []
    for _ in range(5):
        hand_out(feed, EXECUTORS + (ready[-1] if ready else 0))
        end_all(feed)
        ready.append(demand.prefetch(feed.load()))

    assert ready[0] == GROWTH * EXECUTORS
    assert ready[1] > ready[0]
    assert ready[-1] == READY * config.batch, "and never more"


def test_what_still_runs_proves_nothing(feed, demand, config):
    hand_out(feed, EXECUTORS)
    feed.lanes[0].inbox.clear()  # all have started, and one has ended
    feed.lanes[0].resting.clear()
    feed.lanes[0].resting.append(SimpleNamespace(release=lambda: None))

    assert demand.prefetch(feed.load()) == GROWTH, "times the one"


def test_jobs_that_took_their_time_raise_no_pace_that_they_did_not_have(feed, demand, config):
    hand_out(feed, EXECUTORS)
    feed.handed_at -= 100.0  # as if they had taken so many seconds
    end_all(feed)

    assert demand.pace == 0.0
    demand.prefetch(feed.load())
    assert demand.pace == pytest.approx(EXECUTORS / 100, rel=0.1)


def test_a_trickle_of_quick_jobs_without_backlog_lets_nothing_be_hoarded(feed, demand, config):
    feed.cursor.words.backlog = 0
    hand_out(feed, EXECUTORS)
    end_all(feed)

    assert demand.prefetch(feed.load()) == 0


def test_what_ran_out_counts_once(feed, demand, config):
    hand_out(feed, EXECUTORS)
    end_all(feed)
    demand.prefetch(feed.load())
    demand.pace = 0.0

    assert demand.prefetch(feed.load()) == 0


@pytest.mark.parametrize("windows", [1, 3, 100])
def test_a_pace_is_forgotten_by_the_time_that_passes_without_an_end(feed, demand, config, windows):
    demand.pace = 1_000.0
    demand._measured_at = began = time.monotonic() - windows * PACE_WINDOW

    demand.prefetch(feed.load())

    passed = (time.monotonic() - began) / PACE_WINDOW
    assert 1_000.0 * PACE_KEPT**passed <= demand.pace <= 1_000.0 * PACE_KEPT**windows


@pytest.mark.parametrize(("counted", "came"), [(0, 0), (None, 1)])
def test_args_are_looked_at_where_the_statement_has_counted_large_ones(demand, counted, came):
    size = demand._budget.counted_from

    demand.brought(claimed(size, counted=counted))

    assert demand._budget.came == came * size


class Answer:
    """What a demand looks at in a claim."""

    def __init__(self, count):
        self.ids, self.args, self.counted = range(count), b"", 0


@pytest.fixture
def paced(feed, config):
    """Give a demand whose queue has ended a hundred jobs a second, as far as it looks back."""
    config = replace(config, prefetch=0.05)
    made = Demand(feed, feed.cursor, Budget(config.prefetch_bytes, 8), config)
    made._measured_at = time.monotonic() + 3600.0
    made.pace = 100.0
    return made


def test_where_executors_idle_during_a_claim_more_is_held_ready_up_to_a_limit(feed, paced):
    ready = []
    for _ in range(10):
        paced.brought(Answer(1))
        ready.append(paced.prefetch(feed.load()))

    assert ready[:2] == [10, 20], "twice as much each time, from 5"
    assert ready[-1] == 100 * LONGEST


def test_where_executors_have_work_during_a_claim_no_more_is_held_ready(feed, paced):
    feed.lanes[0].resting.clear()
    for _ in range(5):
        paced.brought(Answer(1))

    assert paced.prefetch(feed.load()) == 5


def test_without_backlog_as_much_is_held_ready_as_is_configured(feed, paced):
    paced.brought(Answer(1))
    feed.cursor.words.backlog = 0
    paced.brought(Answer(1))

    assert paced.prefetch(feed.load()) == 5


def test_claims_that_come_in_good_time_have_less_be_held_ready_again(feed, paced):
    for _ in range(3):
        paced.brought(Answer(1))
    feed.lanes[0].inbox.extend([object()] * 1_000)
    paced.brought(Answer(1))
    assert paced.prefetch(feed.load()) == int(100 * LONGEST * ENOUGH)

    for _ in range(100):
        paced.brought(Answer(1))
    assert paced.prefetch(feed.load()) == 5


def test_a_program_that_wants_nothing_held_ready_has_nothing_held_ready(feed, config):
    none = Demand(feed, feed.cursor, Budget(config.prefetch_bytes, 8), replace(config, prefetch=0.0))
    none.pace = 100.0
    for _ in range(5):
        none.brought(Answer(1))

    assert none.prefetch(feed.load()) == 0


def marks(feed):
    """Return after how many jobs each mark of the inbox calls."""
    return [place for place, item in enumerate(feed.lanes[0].inbox) if item is Mark.REFILL]


def test_a_call_that_came_too_early_is_followed_by_another_when_the_inbox_runs_low(feed, paced):
    feed.lanes[0].resting.clear()
    paced.pace = 10_000.0
    assert paced.wanted(10_000, feed.load()) == 500
    paced.brought(Answer(500))
    feed.put([object()] * 500, paced.low)
    assert marks(feed) == [250]
    for _ in range(251):
        feed.lanes[0].inbox.popleft()  # the executors have come to the mark ...

    paced.pace = 4_000.0  # ... and slower work
    assert paced.wanted(10_000, feed.load()) == 0
    for _ in range(3):
        paced.mark_again()

    assert marks(feed) == [150], "100 jobs are left then, and no more than one mark comes"


def test_no_mark_comes_where_the_pace_has_not_fallen(feed, paced):
    feed.lanes[0].resting.clear()
    paced.pace = 10_000.0
    paced.wanted(10_000, feed.load())
    paced.brought(Answer(500))
    feed.put([object()] * 500, paced.low)

    assert paced.wanted(10_000, feed.load()) == 0
    paced.mark_again()
    assert marks(feed) == [250]
