"""How long finished jobs are kept: the most specific rule holds, each job is in one share, and mistakes are told."""

import pytest

from fastq.errors import ConfigError
from fastq.jobs.job import State
from fastq.jobs.retention import STATES, Retention, Share

TEXT = "completed=1, discarded=30, emails=0.5, emails:completed=0.1, reports:cancelled=2"


@pytest.mark.parametrize(
    ("queue", "state", "days"),
    [
        ("default", "completed", 1.0),
        ("default", "discarded", 30.0),
        ("default", "cancelled", 7.0),
        ("emails", "completed", 0.1),
        ("emails", "discarded", 0.5),
        ("reports", "cancelled", 2.0),
        ("reports", "completed", 1.0),
    ],
)
def test_the_most_specific_rule_holds(queue, state, days):
    assert Retention.parse(TEXT).days(queue, state, 7.0) == days


def test_without_rules_the_general_one_holds_and_nothing_goes_row_by_row():
    rules = Retention.parse("")

    assert rules.days("any", "completed", 7.0) == 7.0
    assert rules.whole_days(7) == 7
    assert rules.shares(7) == []


@pytest.mark.parametrize(
    ("text", "general", "days"),
    [
        ("discarded=30", 7, 30),
        ("completed=0.1", 7, 7),
        ("completed=1,cancelled=1,discarded=2.5", 7, 3),
        ("emails=90", 7, 90),
        ("completed=0,cancelled=0,discarded=0", 7, 0),
    ],
)
def test_a_day_is_over_when_the_longest_rule_that_can_hold_is_over(text, general, days):
    assert Retention.parse(text).whole_days(general) == days


@pytest.mark.parametrize("text", [TEXT, "discarded=30", "a=1,b=2,a:discarded=40", "completed=0.5", "a=20"])
def test_each_finished_job_is_in_one_share_or_goes_with_its_day(text):
    rules = Retention.parse(text)
    shares = rules.shares(7)
    for queue in ("default", "emails", "reports", "a", "b"):
        for state in STATES:
            mine = [share for share in shares if state in share.states and holds(share, queue)]
            days = rules.days(queue, state, 7)
            assert [share.days for share in mine] == ([days] if days < rules.whole_days(7) else [])


def holds(share: Share, queue):
    return share.queue == queue if share.queue is not None else queue not in share.others


def test_states_of_a_queue_that_are_kept_equally_long_are_one_share():
    assert Retention.parse("emails=1").shares(7) == [Share("emails", (), STATES, 1.0)]


def test_a_queue_that_is_called_like_a_state_names_its_states():
    rules = Retention.parse("completed:completed=3")

    assert rules.days("completed", "completed", 7.0) == 3.0
    assert rules.days("other", "completed", 7.0) == 7.0


@pytest.mark.parametrize(
    "text",
    ["completed", "completed=", "=1", "completed=x", "completed=-1", "completed=nan", "completed=inf", "completed=4000", "a:b=1",
     "emails:running=1", ":completed=1", "a b=1", "a:completed:x=1", "Emails=1", "-a=1", f"{'a' * 64}=1"],
)  # fmt: skip
def test_a_mistake_is_told_with_what_came_and_what_is_expected(text):
    with pytest.raises(ConfigError, match=r"^FASTQ_KEEP: expected STATE=DAYS, QUEUE=DAYS or QUEUE:STATE=DAYS"):
        Retention.parse(f"discarded=30,{text}")


def test_the_same_rule_twice_is_a_mistake():
    with pytest.raises(ConfigError, match="'completed=2' is said twice"):
        Retention.parse("completed=1,completed=2")


def test_its_states_are_those_of_finished_jobs():
    assert (State.COMPLETED.value, State.CANCELLED.value, State.DISCARDED.value) == STATES
