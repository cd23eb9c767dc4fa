"""`expires`, `deadline` and `keep_trying_for`: what is taken and refused, where it is stated, and how it lies in a job's meta."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fastq import Args, Enqueue, Every, Job, Kind, Registry, Worker
from fastq.admin.jobs import JobDetail
from fastq.args.meta import DEADLINE, EXPIRES
from fastq.args.options import DEFAULT_MAX_ATTEMPTS, MAX_ATTEMPTS
from fastq.enqueue.items import encoded
from fastq.errors import FastqError, OptionError, RegistryError
from fastq.jobs.spec import spec_of

NOON = datetime(2026, 12, 24, 12, tzinfo=UTC)
MOST = MAX_ATTEMPTS[-1]


@dataclass
class SmsArgs(Args, kind="sms"):
    to: str = ""


SMS: Kind[SmsArgs] = SmsArgs.__fastq_kind__  # type: ignore[attr-defined]


def meta_of(kind=SMS, **options):
    kept = spec_of(kind, options).meta
    return None if kept is None else json.loads(kept)


@pytest.mark.parametrize("name", ["expires", "deadline", "keep_trying_for"])
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, "+60.0"),
        ({"delay": 30}, "+90.0"),
        ({"delay": timedelta(seconds=30)}, "+90.0"),
        ({"at": NOON}, "2026-12-24T12:01:00+00:00"),
        ({"at": NOON.astimezone(timezone(timedelta(hours=9)))}, "2026-12-24T12:01:00+00:00"),
    ],
)
def test_a_span_counts_from_when_the_job_is_due(name, options, kept):
    assert meta_of(**options, **{name: 60}) == {name: kept}
    assert meta_of(**options, **{name: timedelta(minutes=1)}) == {name: kept}


@pytest.mark.parametrize("name", ["expires", "deadline"])
def test_a_time_is_kept_in_utc(name):
    assert meta_of(**{name: NOON.astimezone(timezone(timedelta(hours=-5)))}, delay=60) == {name: "2026-12-24T12:00:00+00:00"}


@pytest.mark.parametrize("name", ["expires", "deadline", "keep_trying_for"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "60", timedelta(0), 1e12, datetime(2026, 1, 1)])  # noqa: DTZ001 - that is refused
def test_what_is_no_moment_is_refused(name, value):
    with pytest.raises(OptionError, match=f"^{name} .*: expected seconds"):
        meta_of(**{name: value})


def test_a_time_is_no_span_to_keep_trying_for():
    with pytest.raises(OptionError, match=r"^keep_trying_for .*: expected seconds above 0 and up to \d+, or a timedelta"):
        meta_of(keep_trying_for=NOON)


def test_a_moment_that_no_clock_shows_is_refused():
    with pytest.raises(OptionError, match="lies in the years from 1 to 9999"):
        meta_of(expires=60, at=datetime(9999, 12, 30, tzinfo=UTC) - timedelta(seconds=1), deadline=3e9)


def test_a_job_without_these_options_has_no_meta():
    assert meta_of() is meta_of(expires=None, deadline=None, keep_trying_for=None, priority=2) is None


def test_the_jobs_own_comes_before_the_calls_and_that_before_the_kinds():
    kind = Kind("call", SmsArgs, expires=10, deadline=timedelta(seconds=20))
    items = [SmsArgs(), Enqueue(SmsArgs(), expires=3)]

    (shared, _), (own, _) = encoded(items, kind, {"expires": 5}, 1_000)

    assert json.loads(shared.meta) == {"expires": "+5.0", "deadline": "+20.0"}
    assert json.loads(own.meta) == {"expires": "+3.0", "deadline": "+20.0"}
    assert meta_of(kind) == {"expires": "+10.0", "deadline": "+20.0"}


def test_a_job_that_is_tried_for_a_time_may_have_the_most_attempts():
    kind = Kind("call", SmsArgs, keep_trying_for=3600)

    assert spec_of(kind, {}).max_attempts == spec_of(SMS, {"keep_trying_for": 1}).max_attempts == MOST
    assert spec_of(SMS, {}).max_attempts == DEFAULT_MAX_ATTEMPTS


def test_a_number_of_attempts_and_a_time_for_them_replace_each_other():
    timed, counted = Kind("timed", SmsArgs, keep_trying_for=3600), Kind("counted", SmsArgs, max_attempts=5)
    by_own = encoded([Enqueue(SmsArgs(), max_attempts=2)], SMS, {"keep_trying_for": 60}, 1_000)

    assert spec_of(timed, {"max_attempts": 3})[3:4] == (3,)
    assert spec_of(timed, {"max_attempts": 3}).meta is None
    assert spec_of(counted, {"keep_trying_for": 60}).max_attempts == MOST
    assert [(spec.max_attempts, spec.meta) for spec, _ in by_own] == [(2, None)]


def test_both_at_one_place_are_refused():
    with pytest.raises(OptionError, match="expected max_attempts or keep_trying_for, got both"):
        spec_of(SMS, {"max_attempts": 3, "keep_trying_for": 60})
    with pytest.raises(OptionError, match="got both"):
        Kind("call", SmsArgs, max_attempts=3, keep_trying_for=60)


def test_a_worker_states_them_for_its_kind_and_is_refused_what_no_job_could_have():
    @dataclass
    class CallArgs(Args, kind="call"):
        pass

    class CallWorker(Worker[CallArgs]):
        expires = timedelta(minutes=1)
        keep_trying_for = 3600

        def work(self, job):
            return None

    registry = Registry()
    registry.register(CallWorker)
    kind = registry.workers["call"].kind

    assert meta_of(kind) == {"expires": "+60.0", "keep_trying_for": "+3600.0"}
    assert spec_of(kind, {}).max_attempts == MOST

    class Both(CallWorker):
        max_attempts = 3

    class AtNoon(CallWorker):
        keep_trying_for = None
        deadline = NOON

    with pytest.raises(RegistryError, match="got both"):
        Registry().register(Both)
    with pytest.raises(RegistryError, match=r"deadline .*: expected seconds above 0"):
        Registry().register(AtNoon)


def test_a_kind_takes_spans_alone():
    with pytest.raises(OptionError, match=r"^expires .*: expected seconds above 0 and up to \d+, or a timedelta$"):
        Kind("call", SmsArgs, expires=NOON)  # type: ignore[arg-type]


def test_a_periodic_job_states_them_for_its_ticks():
    registry = Registry()
    registry.periodic("often", Every(60.0), SmsArgs(), expires=30, keep_trying_for=timedelta(minutes=1))

    spec = registry.periodics["often"].spec()

    assert json.loads(spec.meta or "") == {"expires": "+30.0", "keep_trying_for": "+60.0"}
    with pytest.raises(RegistryError, match=r"expires .*: expected seconds above 0"):
        registry.periodic("once", Every(60.0), SmsArgs(), expires=NOON)  # type: ignore[arg-type]


def detail(meta, tags=()):
    values = dict.fromkeys(JobDetail.__dataclass_fields__)
    return JobDetail(**values | {"created_at": NOON, "tags": list(tags), "meta": meta})  # type: ignore[arg-type]


def test_a_moment_is_read_back_from_when_the_job_was_enqueued():
    assert detail({"expires": "+60.0"}).expires == NOON + timedelta(minutes=1)
    assert detail({"deadline": "2026-12-25T00:00:00+00:00"}).deadline == datetime(2026, 12, 25, tzinfo=UTC)
    assert detail({}).expires is detail({}).deadline is None


def test_a_moment_of_a_periodic_job_is_read_back_from_its_tick():
    assert detail({"expires": "+60.0"}, ["tick:2026-12-24T11:00:00Z"]).expires == NOON - timedelta(minutes=59)
    assert detail({"expires": "+60.0"}, ["tick:yesterday"]).expires == NOON + timedelta(minutes=1)
    assert detail({"expires": "+60.0"}, ["tick:2026-12-24T11:00:00"]).expires == NOON + timedelta(minutes=1)


@pytest.mark.parametrize("text", ["soon", "+soon", 60, "+1e300"])
def test_a_moment_that_cannot_be_read_is_told_with_its_key(text):
    with pytest.raises(FastqError, match="meta key 'deadline': expected"):
        _ = detail({"deadline": text}).deadline


def test_a_job_made_for_a_test_has_the_deadline_and_the_stop_that_it_is_given():
    job = Job.of(SmsArgs(), deadline=NOON, stopping=True)
    other = Job.of(SmsArgs())

    assert (job.deadline, job.stopping) == (NOON, True)
    assert (other.expires, other.deadline, other.stopping) == (None, None, False)
    assert (Job.deadline, Job.expires) == (DEADLINE, EXPIRES)
