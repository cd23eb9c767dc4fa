"""Ask what it costs to make typed jobs of a claim, by the shape of the args. No database."""

from dataclasses import dataclass

import msgspec
import pytest

from bench.pieces import claimed
from fastq import Args, Job, Registry, Worker
from fastq.work.codec.codec import decode

JOBS = 2_000
registry = Registry()


@dataclass
class FlatArgs(Args, kind="flat"):
    number: int


@dataclass
class WideArgs(Args, kind="wide"):
    id: int
    name: str
    amount: float
    urgent: bool
    note: str | None


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class NestedArgs(Args, kind="nested"):
    order: int
    lines: list[Line]
    labels: dict[str, str]


@registry.register
class FlatWorker(Worker[FlatArgs]):
    def work(self, job: Job[FlatArgs]) -> None:
        pass


@registry.register
class WideWorker(Worker[WideArgs]):
    def work(self, job: Job[WideArgs]) -> None:
        pass


@registry.register
class NestedWorker(Worker[NestedArgs]):
    def work(self, job: Job[NestedArgs]) -> None:
        pass


SHAPES = {
    "flat": FlatArgs,
    "wide": lambda number: WideArgs(number, f"customer {number}", number / 7, number % 2 == 0, None),
    "nested": lambda number: NestedArgs(number, [Line("a-1", 2), Line("b-2", number)], {"region": "north", "channel": "web"}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_decode(measured, size, shape):
    jobs = size(JOBS)
    args = [SHAPES[shape](number) for number in range(jobs)]
    claim = claimed(shape, [msgspec.json.encode(some) for some in args])
    good, bad, unknown, _ = decode(claim, registry.workers)
    assert [job.args for job in good] == args
    assert not bad
    assert not unknown

    measured(jobs, lambda: decode(claim, registry.workers), rounds=50)
