"""The checker against ledgers made by hand: the good ones pass, and each kind of bad one is seen."""

import pytest

from tests.chaos.checker import Evidence, Fault, Row, check, measure_recovery, quantile
from tests.chaos.ledger import END, FAILED, START, Ledger, Record, read

MS = 1_000_000


FIRST = Row(1, "completed", 1, 25)


def evidence(*lines, row=FIRST, kills=(), left=(), rolled_back=(), acknowledged=(1,)):
    """Make the evidence of one job from lines of (what, attempt, pid, millisecond) and kills of (pid, millisecond)."""
    records = [Record(what, 1, attempt, pid, at * MS) for what, attempt, pid, at in lines]
    faults = [Fault("worker", at * MS, pid, {pid: (at + 1) * MS}) for pid, at in kills]
    return Evidence(acknowledged, rolled_back, left, [row] if row else [], records, faults)


ONCE = ((START, 1, 7, 10), (END, 1, 7, 20))
AGAIN = ((START, 2, 8, 60), (END, 2, 8, 70))
SECOND = Row(1, "completed", 2, 25)


def test_a_job_that_ran_once_is_good():
    verdict = check(evidence(*ONCE))

    assert verdict.good
    assert (verdict.explained, verdict.retried) == (0, 0)


def test_a_job_whose_process_was_killed_may_run_again():
    verdict = check(evidence((START, 1, 7, 10), *AGAIN, row=SECOND, kills=[(7, 30)]))

    assert verdict.good
    assert (verdict.explained, verdict.unflushed) == (1, 0)


def test_a_job_that_started_while_the_signal_was_on_its_way_was_cut_off_by_it():
    found = evidence((START, 1, 7, 10), *AGAIN, row=SECOND)
    found.faults = [Fault("worker", 9 * MS, 7, {7: 11 * MS})]

    assert check(found).good


def test_a_job_that_ended_just_before_its_process_was_killed_may_run_again():
    verdict = check(evidence(*ONCE, *AGAIN, row=SECOND, kills=[(7, 25)]))

    assert verdict.good
    assert (verdict.explained, verdict.unflushed) == (1, 1)


def test_a_job_that_failed_with_an_error_on_record_may_run_again():
    verdict = check(evidence((START, 1, 7, 10), (FAILED, 1, 7, 20), *AGAIN, row=Row(1, "completed", 2, 25, frozenset({1}))))

    assert verdict.good
    assert (verdict.explained, verdict.retried) == (0, 1)


def test_the_children_of_a_killed_supervisor_die_with_it():
    found = evidence((START, 1, 7, 10), *AGAIN, row=SECOND)
    found.faults = [Fault("supervisor", 30 * MS, 3, {3: 31 * MS, 7: 40 * MS})]

    assert check(found).good


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (evidence(*ONCE, row=None), "neither among the living nor in the archive"),
        (evidence(*ONCE, left=[1]), "still among the living"),
        (evidence(row=Row(1, "completed", 1, 25)), "no such attempt came to its end"),
        (evidence((START, 1, 7, 10), row=Row(1, "completed", 1, 25)), "no such attempt came to its end"),
        (evidence((START, 1, 7, 10), (FAILED, 1, 7, 20), row=Row(1, "completed", 1, 25)), "no such attempt came to its end"),
        (evidence(*ONCE, row=Row(1, "completed", 2, 25, frozenset({1}))), "no such attempt came to its end"),
        (evidence((START, 1, 7, 10), row=Row(1, "discarded", 1, 25)), "without a reason"),
    ],
)
def test_a_job_that_did_not_end_as_it_should_is_lost(found, why):
    verdict = check(found)

    assert verdict.lost == [1]
    assert why in verdict.problems[0]


def test_a_job_that_ended_twice_is_a_fault():
    found = evidence(*ONCE)
    found.rows = [*found.rows, *found.rows]

    assert check(found).lost == [1]


@pytest.mark.parametrize(
    "found",
    [
        evidence(*ONCE, *AGAIN, row=SECOND),  # nothing happened to the first process
        evidence((START, 1, 7, 10), *AGAIN, row=SECOND),
        evidence((START, 1, 7, 10), *AGAIN, row=SECOND, kills=[(9, 30)]),  # somebody else was killed
        evidence((START, 1, 7, 10), *AGAIN, row=SECOND, kills=[(7, 5)]),  # an earlier process with this pid was killed
        evidence(*ONCE, (START, 2, 8, 10_060), (END, 2, 8, 10_070), row=SECOND, kills=[(7, 10_050)]),  # long after its end
        evidence((START, 1, 7, 10), (FAILED, 1, 7, 20), *AGAIN, row=SECOND),  # the error is not on record
        evidence(*ONCE, *AGAIN, row=Row(1, "completed", 2, 25, frozenset({1}))),  # an error is, but it did not fail
    ],
)
def test_a_second_start_without_a_reason_is_unexplained(found):
    assert check(found).unexplained == [1]


def test_two_executions_at_once_are_a_fault_even_if_the_first_is_killed_later():
    overlapping = ((START, 1, 7, 10), (START, 2, 8, 20), (END, 2, 8, 30))

    assert check(evidence(*overlapping, row=SECOND, kills=[(7, 25)])).overlapping == [1]
    assert check(evidence(*overlapping, row=SECOND, kills=[(7, 15)])).overlapping == []


def test_a_child_that_outlives_its_supervisor_must_not_overlap_with_the_next():
    found = evidence((START, 1, 7, 10), *AGAIN, row=SECOND)
    found.faults = [Fault("supervisor", 30 * MS, 3, {3: 31 * MS, 7: 65 * MS})]

    assert check(found).overlapping == [1]


def test_what_was_never_acknowledged_must_not_run_nor_be_there():
    assert check(evidence(*ONCE, acknowledged=[])).never_committed == [1]
    assert check(evidence(row=Row(1, "cancelled", 0, 25), rolled_back=[1], acknowledged=[])).never_committed == [1]


def test_attempts_are_counted_right():
    beyond = evidence((START, 1, 7, 10), *AGAIN, row=Row(1, "completed", 2, 1), kills=[(7, 30)])
    skipped = evidence(*AGAIN, row=SECOND)
    told = evidence(*AGAIN, row=Row(1, "completed", 2, 25, frozenset({1})))

    assert check(beyond).miscounted == [1]
    assert check(skipped).miscounted == [1]
    assert check(told).good


def test_recovery_is_the_time_from_the_kill_to_the_next_start():
    found = evidence((START, 1, 7, 10), *AGAIN, row=SECOND, kills=[(7, 30)])
    verdict = check(found)

    measure_recovery(found, verdict)

    assert verdict.recovery == {"worker": [0.03], "supervisor": []}


def test_a_quantile_is_a_value_that_occurred():
    values = [float(n) for n in range(100, 0, -1)]

    assert (quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert quantile([], 0.5) is None


def test_records_come_back_as_they_were_written(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(START, 2**40, 3)
    ledger.write(END, 2**40, 3)

    first, second = read(tmp_path)

    assert (first.what, first.job, first.attempt, second.what) == (START, 2**40, 3, END)
    assert 0 <= second.at - first.at < 10_000 * MS
