"""Help for tests that call a worker by hand, with a job made by `Job.of`: its transactions, its steps, samples of its args.

Samples of args that older programs have enqueued are read as a worker does. Used in the threads of a test, which makes and owns
the objects. It deliberately executes no job: workplace.py does.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.kinds import Args, Kind, kind_of_type
from fastq.enqueue.settings import Settings
from fastq.errors import ArgsError
from fastq.results import transacting
from fastq.steps import through
from fastq.steps.remembered import Remembered
from fastq.work.effects.transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def check_versions(kind: type[Args] | Kind[Any], samples: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
    """Read a sample of each version of a kind's args as a worker would, and return the args that it would see, by version.

    A sample is the JSON of a job as a dict: `{1: {"address": "a@b"}, 2: {"to": ["a@b"]}}`. AssertionError tells of a version
    that the kind can read and that has no sample, of a sample that does not upgrade or decode, and of args that could not be
    enqueued again. Keep the sample of a version for as long as its upgrade: then a later change of the class cannot break it.
    """
    of = kind if isinstance(kind, Kind) else kind_of_type(kind)
    if (missing := of.upgrades.missing()) is not None:
        raise AssertionError(f"kind '{of.name}' has version {of.version}, and no upgrade from version {missing}")
    readable = range(of.upgrades.oldest, of.version + 1)
    if unlike := sorted(samples.keys() ^ set(readable)):
        told = ", ".join(map(str, readable))
        others = ", ".join(map(str, unlike))
        raise AssertionError(
            f"kind '{of.name}' reads args of version {told}: expected a sample of each alone; these differ: {others}"
        )
    read = {}
    for version, sample in samples.items():
        try:
            read[version] = of.reading(str(version)).decode(msgspec.json.encode(sample))
            of.codec.encode(read[version])
        except ArgsError as error:
            raise AssertionError(f"the sample of version {version}: {error}") from error
    return read


@contextmanager
def transactions(url: str | None = None) -> Iterator[None]:
    """Let `job.transaction()` and `job.step_transaction(...)` of a `Job.of(...)` work: they commit or roll back your statements.

    There is no job to end, and a step is remembered in memory.

    `url`: the database for transactions without a connection of yours; otherwise that of FASTQ_DATABASE_URL.
    """
    with transacting.beginning_by(Transactions(Settings(url, None, None))):
        yield


@contextmanager
def steps(signals: Mapping[str, Any] | None = None) -> Iterator[Remembered]:
    """Have the jobs of a test share their records of steps, by their ids: a second `work(Job.of(...))` finds those of the first.

    `signals`: the values that `job.wait_for` finds, by name. What is given back says by `done(job_id)` which values a job has
    kept. No time passes: a sleep is over at once, and so is a wait with a timeout for a signal that is not given.
    """
    remembered = Remembered(signals)
    with through.using(remembered):
        yield remembered
