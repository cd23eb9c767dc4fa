"""`attempts="since_progress"`: what is taken and refused, where it is stated, and how it lies in a job's meta."""

import json
from dataclasses import dataclass

import pytest

from fastq import Args, Every, Job, Kind, Registry, Worker
from fastq.errors import OptionError, RegistryError
from fastq.jobs.spec import spec_of


@dataclass
class ImportArgs(Args, kind="import"):
    source: str = ""


@dataclass
class ReportArgs(Args, kind="report", max_attempts=5, attempts="since_progress"):
    source: str = ""


PLAIN: Kind[ImportArgs] = ImportArgs.__fastq_kind__  # type: ignore[attr-defined]
COUNTED: Kind[ReportArgs] = ReportArgs.__fastq_kind__  # type: ignore[attr-defined]


def kept(kind, **options):
    spec = spec_of(kind, options)
    return spec.max_attempts, None if spec.meta is None else json.loads(spec.meta)


def test_a_job_keeps_how_many_attempts_it_has_from_its_last_progress_on():
    assert kept(PLAIN) == (25, None)
    assert kept(PLAIN, attempts="since_progress") == (25, {"attempts": 25})
    assert kept(PLAIN, attempts="since_progress", max_attempts=3) == (3, {"attempts": 3})
    assert kept(COUNTED) == (5, {"attempts": 5})
    assert kept(COUNTED, max_attempts=3) == (3, {"attempts": 3})


@pytest.mark.parametrize("value", ["since_start", "", 5, True, ["since_progress"]])
def test_another_word_is_refused(value):
    with pytest.raises(OptionError, match=r"^attempts .*: expected 'since_progress'"):
        kept(PLAIN, attempts=value)
    with pytest.raises(OptionError, match=r"^attempts .*: expected 'since_progress'"):
        Kind("other", ImportArgs, attempts=value)


def test_a_worker_states_it_for_its_kind():
    @dataclass
    class OwnArgs(Args, kind="own"):
        pass

    class OwnWorker(Worker[OwnArgs]):
        max_attempts = 4
        attempts = "since_progress"

        def work(self, job: Job[OwnArgs]) -> None:
            pass

    Registry().register(OwnWorker)
    assert kept(OwnArgs.__fastq_kind__) == (4, {"attempts": 4})  # type: ignore[attr-defined]


def test_a_worker_that_states_a_number_is_told_where_it_belongs():
    class NumberWorker(Worker[ImportArgs]):
        attempts = 5  # type: ignore[assignment]

        def work(self, job: Job[ImportArgs]) -> None:
            pass

    with pytest.raises(RegistryError, match="max_attempts says how many"):
        Registry().register(NumberWorker)


def test_a_periodic_job_may_have_it():
    registry = Registry()
    registry.periodic("often", Every(60.0), ImportArgs(), attempts="since_progress", max_attempts=2)

    assert json.loads(registry.periodics["often"].spec().meta or "") == {"attempts": 2}
