"""Fates as data: where each outcome sends the row of its job, and which statement writes it."""

import math
from types import SimpleNamespace

import pytest

from fastq.jobs.job import KEPT, TIED, UNKEPT, Job, State
from fastq.jobs.outcome import (
    COMPLETED,
    WAITS,
    Barred,
    Cancel,
    Discard,
    Failed,
    Fate,
    Output,
    RateLimited,
    Release,
    Retry,
    Snooze,
    Verdict,
    fate_of,
)
from fastq.work.complete import writes
from fastq.work.complete.writes import WRITES, cut, parts_of
from fastq.work.isolated.deaths import Told
from fastq.work.shared.in_time import Late
from fastq.work.steps.parking import Interrupted, Parked

ERROR = '{"error":"boom"}'
OUTCOMES = {  # outcome, fate, statement with the archive and without it
    "nothing to tell": (None, COMPLETED, "job_complete_archive", "job_complete"),
    "an output": (Output("1"), Fate(State.COMPLETED, output="1"), "job_finish", "job_complete"),
    "a snooze": (Snooze(60), Fate(delay=60.0), "job_retry", "job_retry"),
    "a rate that was exceeded": (RateLimited(after=30), Fate(limited=30.0), "job_rate_limited", "job_rate_limited"),
    "a discard": (
        Discard("no such user"),
        Fate(State.DISCARDED, error='{"error":"discarded: no such user"}'),
        "job_finish",
        "job_finish",
    ),
    "a cancellation": (Cancel(), Fate(State.CANCELLED), "job_finish", "job_finish"),
    "a cancellation with a reason": (
        Cancel("no such user"),
        Fate(State.CANCELLED, error='{"error":"cancelled: no such user"}'),
        "job_finish",
        "job_finish",
    ),
    "a failure": (Failed(ERROR, 16.0), Fate(delay=16.0, charged=True, error=ERROR), "job_retry", "job_retry"),
    "a failure to try again at once": (Failed(ERROR, 0.0), Fate(charged=True, error=ERROR), "job_retry", "job_retry"),
    "the last failure": (Failed(ERROR, None), Fate(State.DISCARDED, error=ERROR), "job_finish", "job_finish"),
    "a turn that came too late": (Late("expired"), Fate(State.CANCELLED, cause="expired"), "job_finish_late", "job_finish_late"),
    "a failure that leaves no time": (
        Failed(ERROR, None, "deadline"),
        Fate(State.DISCARDED, charged=True, error=ERROR, cause="deadline"),
        "job_finish_late",
        "job_finish_late",
    ),
    "a fate from the process of a job": (Told(Fate(delay=60.0)), Fate(delay=60.0), "job_retry", "job_retry"),
    "a crash of its own process": (
        Told(Fate(delay=1.0, charged=True, error=ERROR, crash="{}")),
        Fate(delay=1.0, charged=True, error=ERROR, crash="{}"),
        "job_crashed",
        "job_crashed",
    ),
    "a crash unless it has ended": (
        Fate(delay=1.0, charged=True, error=ERROR, crash="{}", unsure=True),
        Fate(delay=1.0, charged=True, error=ERROR, crash="{}", unsure=True),
        "job_crashed",
        "job_crashed",
    ),
    "a release": (Release(), Fate(), "job_retry", "job_retry"),
    "an unknown kind": (WAITS, Fate(delay=math.inf), "job_retry", "job_retry"),
    "a sleep": (Parked(60.0), Fate(delay=60.0), "job_retry", "job_retry"),
    "a wait for a signal": (Parked(math.inf, "go", 2), Fate(delay=math.inf, parks='["go",2]'), "job_park", "job_park"),
    "a hand-back between steps": (Interrupted(), Fate(), "job_retry", "job_retry"),
    "a job that came past its gates": (Barred("[]"), Fate(gates="[]"), "job_bar", "job_bar"),
    "a failure unless it has ended": (Fate(charged=True, unsure=True), Fate(charged=True, unsure=True), "job_retry", "job_retry"),
    "the last failure unless it has ended": (
        Fate(State.DISCARDED, error=ERROR, unsure=True),
        Fate(State.DISCARDED, error=ERROR, unsure=True),
        "job_finish",
        "job_finish",
    ),
    "a failure that leaves no time unless it has ended": (
        Fate(State.DISCARDED, charged=True, error=ERROR, cause="deadline", unsure=True),
        Fate(State.DISCARDED, charged=True, error=ERROR, cause="deadline", unsure=True),
        "job_finish_late",
        "job_finish_late",
    ),
    "a fate of its own": (Fate(State.COMPLETED), COMPLETED, "job_complete_archive", "job_complete"),
}


def classes(base):
    return {base, *(found for each in base.__subclasses__() for found in classes(each))}


def job_of(outcome, id_=1, *, archive=True, tied=False):
    """Return a job as the executor hands it on; the writes ask its worker only whether it is archived."""
    job = Job.of(None, id=id_)
    job.outcome = outcome
    job.batch.worker = SimpleNamespace(archive=archive)
    job.batch.ends = TIED if tied else KEPT if archive else UNKEPT
    return job


def parts(jobs, *, archive=True):
    return parts_of(jobs, archive=archive)


@pytest.mark.parametrize("name", OUTCOMES)
def test_each_outcome_states_its_fate(name):
    outcome, fate, *_ = OUTCOMES[name]

    assert fate_of(outcome) == fate


@pytest.mark.parametrize(("by_setting", "by_worker"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("name", OUTCOMES)
def test_each_outcome_is_written_by_one_statement(name, by_setting, by_worker):
    outcome, _, with_archive, without = OUTCOMES[name]

    (part,) = parts([job_of(outcome, archive=by_worker)], archive=by_setting)

    assert part.write.statement == (with_archive if by_setting and by_worker else without)


@pytest.mark.parametrize(("by_setting", "by_worker"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("name", OUTCOMES)
def test_a_success_that_went_through_gates_tells_of_it_and_others_do_in_any_case(name, by_setting, by_worker):
    outcome, _, with_archive, without = OUTCOMES[name]

    (part,) = parts([job_of(outcome, archive=by_worker, tied=True)], archive=by_setting)

    plain = with_archive if by_setting and by_worker else without
    assert part.write.statement == plain.replace("job_complete", "job_complete_tied")
    assert part.write.hinted


def test_every_verdict_stands_in_the_table():
    listed = {type(outcome) for outcome, *_ in OUTCOMES.values()}

    ours = {each for each in classes(Verdict) if each.__module__.startswith("fastq.") and not each.__name__.startswith("_")}
    assert ours - {Verdict, Retry} <= listed  # a Retry fails the attempt: its outcome is a Failed


def test_a_failure_of_a_job_without_a_worker_does_not_ask_for_one():
    job = job_of(Failed(ERROR, None))
    job.batch.worker = None

    assert [part.write.statement for part in parts([job])] == ["job_finish"]


def test_an_outcome_that_is_written_elsewhere_is_not_written_again():
    assert parts([job_of(Fate(State.COMPLETED, elsewhere=True))]) == []


@pytest.mark.parametrize("thing", [object(), 1, "text", {"fate": COMPLETED}, Snooze, SimpleNamespace(fate="completed")])
def test_an_object_that_is_no_outcome_has_no_fate(thing):
    with pytest.raises(TypeError, match="expected an outcome, which states its fate"):
        fate_of(thing)


def test_plain_successes_have_no_fate_of_their_own():
    jobs = [job_of(None, number) for number in range(3)]

    (part,) = parts(jobs)

    assert (part.jobs, part.fates) == (jobs, [])


def test_a_batch_is_written_in_the_order_of_the_list_by_one_part_each():
    jobs = [job_of(outcome, number) for number, (outcome, *_) in enumerate(OUTCOMES.values())]
    jobs.append(job_of(None, 99, archive=False))
    jobs += [job_of(None, 100, tied=True), job_of(None, 101, tied=True, archive=False)]

    found = parts(jobs)

    assert [part.write for part in found] == list(WRITES)
    assert sorted(job.id for part in found for job in part.jobs) == sorted(job.id for job in jobs)


def test_parts_are_cut_by_their_count_and_those_with_texts_by_their_bytes(monkeypatch):
    monkeypatch.setattr(writes, "BYTES", 1_000)
    plain = [job_of(None, number) for number in range(7)]
    told = [job_of(Output("x" * 400), number) for number in range(7, 17)]

    pieces = cut(parts([*plain, *told]), 3)

    assert [[job.id for job in piece.jobs] for piece in pieces] == [
        *([0, 1, 2], [3, 4, 5], [6]),
        *([7, 8, 9], [10, 11, 12], [13, 14, 15], [16]),
    ]
    assert [len(piece.jobs) for piece in cut(parts(told), 100)] == [3, 3, 3, 1]


def test_a_part_without_some_of_its_jobs_keeps_the_fates_of_the_others():
    plain, told = parts([*(job_of(None, number) for number in range(4)), *(job_of(Output(str(n)), n) for n in (7, 5, 6, 4))])

    assert [job.id for job in plain.without({1, 2}).jobs] == [0, 3]
    left = told.without({5})
    assert [(job.id, fate.output) for job, fate in zip(left.jobs, left.fates, strict=True)] == [(4, "4"), (6, "6"), (7, "7")]


def test_the_jobs_that_end_without_success_are_named():
    jobs = [job_of(outcome, number) for number, (outcome, *_) in enumerate(OUTCOMES.values())]

    ended = {(state, job.id) for part in parts(jobs) for state, job in part.ended()}

    assert ended == {
        (fate.state, number)
        for number, (_, fate, *_) in enumerate(OUTCOMES.values())
        if fate.state in (State.CANCELLED, State.DISCARDED) and not isinstance(OUTCOMES[list(OUTCOMES)[number]][0], Late)
    }


def test_jobs_that_end_without_an_attempt_are_not_named():
    late = [job_of(Late(cause), number) for number, cause in enumerate(["expired", "deadline"])]

    (part,) = parts([*late, job_of(Failed(ERROR, None, "deadline"), 7)])

    assert [job.id for _, job in part.ended()] == [7]
