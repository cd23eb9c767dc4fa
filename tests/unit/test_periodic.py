"""Definitions of periodic jobs, and which ticks a policy makes up for."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypedDict

import pytest

from fastq import Args, Backfill, Cron, Every, Job, Kind, Registry, Worker
from fastq.errors import OptionError, RegistryError
from fastq.jobs.periodic import MOST_BACKFILL, SKIP_GRACE, due_ticks
from fastq.lead.definitions import declared

HOURLY = Cron("0 * * * *")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@dataclass
class ReportArgs(Args, kind="report"):
    name: str = "daily"


class MailDict(TypedDict):
    to: str


def defined(*args, **options):
    """Return a registry with one periodic job."""
    registry = Registry()
    registry.periodic("report", *(args or (HOURLY, ReportArgs())), **options)
    return registry


def hash_of(*args, **options):
    return defined(*args, **options).periodics["report"].hash


def test_a_definition_is_kept_by_name_with_its_args_as_they_were():
    args = ReportArgs("daily")
    registry = defined(Every(30), args)
    args.name = "changed"

    assert registry.periodics["report"].args == b'{"name":"daily"}'
    with pytest.raises(TypeError):
        registry.periodics["other"] = None


def test_a_typed_dict_comes_with_its_kind():
    registry = defined(HOURLY, MailDict(to="ada"), kind=Kind("mail", MailDict, queue="emails"))

    assert registry.periodics["report"].spec()[:2] == ("mail", "emails")


def test_a_second_definition_of_a_name_is_refused_with_both_places():
    registry = defined()

    with pytest.raises(RegistryError, match=r"'report' is defined twice: \S*test_periodic, line \d+ and \S*test_periodic, line"):
        registry.periodic("report", HOURLY, ReportArgs())


@pytest.mark.parametrize(
    ("words", "options", "told"),
    [
        (("a=b", HOURLY, ReportArgs()), {}, "name 'a=b': expected 1 to 127"),
        (("x" * 128, HOURLY, ReportArgs()), {}, "expected 1 to 127"),
        (("report", "0 9 * * *", ReportArgs()), {}, "schedule '0 9 \\* \\* \\*': expected Cron"),
        (("report", HOURLY, ReportArgs(3)), {}, "field 'name'"),
        (("report", HOURLY, ReportArgs("x" * 70_000)), {}, "70011 bytes of JSON, 65536 allowed"),
        (("report", HOURLY, {"to": "ada"}), {}, "dict is no Args class"),
        (("report", HOURLY, ReportArgs()), {"missed": "never"}, "missed 'never': expected 'once', 'skip' or Backfill"),
        (("report", HOURLY, ReportArgs()), {"run_on_start": 1}, "run_on_start 1: expected True or False"),
        (("report", HOURLY, ReportArgs()), {"queue": "A b"}, "queue 'A b': expected"),
        (("report", HOURLY, ReportArgs()), {"priority": 7}, "priority 7: expected"),
        (("report", HOURLY, ReportArgs()), {"delay": 3}, "unknown option delay; expected one of missed, run_on_start, queue"),
        (("report", HOURLY, ReportArgs()), {"tags": [str(n) for n in range(31)]}, "tags: expected 30 at most, for 2 are added"),
    ],
)
def test_a_bad_definition_is_refused_where_it_is_written(words, options, told):
    with pytest.raises(RegistryError, match=r"test_periodic, line \d+: periodic job .*" + told):
        Registry().periodic(*words, **options)


@pytest.mark.parametrize("most", [0, -1, MOST_BACKFILL + 1, 1.5, True])
def test_a_backfill_that_is_no_number_of_ticks_is_refused(most):
    with pytest.raises(OptionError, match="expected a whole number from 1 to 1,000"):
        Backfill(most)


def test_the_options_that_a_worker_states_hold_though_it_is_registered_later():
    @dataclass
    class LateArgs(Args, kind="late"):
        pass

    registry = defined(HOURLY, LateArgs())
    before = declared(registry)

    @registry.register
    class LateWorker(Worker[LateArgs]):
        queue = "slow"

        def work(self, job):
            pass

    assert registry.periodics["report"].spec().queue == "slow"
    assert declared(registry) != before


def test_the_hash_tells_every_difference_and_nothing_else():
    hashes = [
        hash_of(),
        hash_of(Cron("1 * * * *"), ReportArgs()),
        hash_of(Cron("0 * * * *", "Europe/Berlin"), ReportArgs()),
        hash_of(HOURLY, ReportArgs("weekly")),
        *(hash_of(**{name: value}) for name, value in [("missed", "skip"), ("missed", Backfill(2)), ("missed", Backfill(3))]),
        *(hash_of(**{name: value}) for name, value in [("run_on_start", True), ("queue", "q"), ("priority", 2), ("tags", ["a"])]),
        hash_of(max_attempts=3),
    ]

    assert len(set(hashes)) == len(hashes)
    assert hash_of() == hash_of(Cron(" 0  * * * *"), ReportArgs(), missed="once", queue="default")


def test_the_hash_of_a_set_is_the_same_in_each_process():
    program = """if True:
        from dataclasses import dataclass
        from fastq import Args, Every, Registry
        from fastq.lead.definitions import declared

        @dataclass
        class SetArgs(Args, kind="set"):
            names: set[str]

        registry = Registry()
        registry.periodic("set", Every(60), SetArgs({"ada", "grace", "barbara", "edsger", "donald"}))
        print(declared(registry))
    """
    told = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True
        ).stdout
        for seed in range(4)
    }

    assert len(told) == 1


@pytest.mark.parametrize(
    ("policy", "late", "enqueued"),
    [
        (("once", 0), 0, [0]),
        (("once", 0), 5, [5]),
        (("skip", 0), 0, [0]),
        (("backfill", 3), 0, [0]),
        (("backfill", 3), 1, [0, 1]),
        (("backfill", 3), 5, [3, 4, 5]),
    ],
)
def test_late_ticks_are_enqueued_by_the_policy(policy, late, enqueued):
    ticks = due_ticks(HOURLY, policy, NOON, NOON + late * HOUR + SECOND)

    assert ticks == [NOON + each * HOUR for each in enqueued]


@pytest.mark.parametrize(("seconds", "enqueued"), [(SKIP_GRACE, 1), (SKIP_GRACE + 1, 0), (3600 + SKIP_GRACE, 1), (7199, 0)])
def test_skip_enqueues_a_tick_that_is_a_little_late(seconds, enqueued):
    assert len(due_ticks(HOURLY, ("skip", 0), NOON, NOON + seconds * SECOND)) == enqueued


@pytest.mark.parametrize(
    ("policy", "hours", "enqueued"),
    [
        (("skip", 0), 0, [-1]),
        (("skip", 0), 2, [2]),
        (("once", 0), 2, [2]),
        (("backfill", 2), 2, [1, 2]),
        (("backfill", 5), 1, [-1, 0, 1]),
    ],
)
def test_the_run_at_the_start_is_never_skipped(policy, hours, enqueued):
    started = NOON - SECOND  # no tick of the schedule
    now = NOON + hours * HOUR + 1800 * SECOND if hours else NOON - SECOND / 2

    ticks = due_ticks(HOURLY, policy, started, now, first=True)

    assert ticks == [started if each < 0 else NOON + each * HOUR for each in enqueued]


def test_a_pending_tick_that_is_none_by_the_rules_known_here_is_left_out():
    assert due_ticks(HOURLY, ("once", 0), NOON + SECOND, NOON + 2 * SECOND) == []


@pytest.mark.parametrize(
    ("tags", "tick"),
    [
        (["a", "tick:2026-03-01T12:00:00Z"], NOON),
        (["tick:2026-03-01T12:00:00.250000Z"], NOON + SECOND / 4),
        (["tick:tock"], None),
        ([], None),
    ],
)
def test_a_job_tells_its_tick(tags, tick):
    assert Job.of(ReportArgs(), tags=tags).tick == tick
