"""Every way to write the args of a kind: dataclass, attrs, pydantic, msgspec and TypedDict.

fastq dev examples.typed_args:registry          works the jobs; brings its own Postgres
python -m examples.typed_args                   enqueues one of each (in another terminal)

The worker sees an object equal to the one that was enqueued, of its type, or enqueue raises: see the last lines.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic

from examples import database
from fastq import Args, Client, FastqError, Job, Kind, Registry, Worker, kind

registry = Registry()


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Line:
    article: str
    price: Decimal
    size: Size = Size.SMALL


@dataclass
class OrderArgs(Args, kind="order"):
    id: UUID
    placed_at: datetime
    lines: list[Line] = field(default_factory=list)
    note: str | None = None


@attrs.define
class ParcelArgs(Args, kind="parcel"):
    order: UUID
    grams: int


class InvoiceArgs(Args, pydantic.BaseModel, kind="invoice"):
    order: UUID
    total: Decimal = pydantic.Field(gt=0)


@kind("label", queue="default")  # a Struct's class line takes no keywords of ours
class LabelArgs(Args, msgspec.Struct):
    parcel: int
    png: bytes


class ReviewDict(TypedDict):
    order: str
    stars: int


REVIEW = Kind("review", ReviewDict)  # a TypedDict is a plain dict at run time: the kind travels beside it


def told(job: Job[Any]) -> str:
    """Print what came and keep it as the job's output."""
    print(f"{job.kind:8s} {job.args}")
    return repr(job.args)


@registry.register
class OrderWorker(Worker[OrderArgs]):
    def work(self, job: Job[OrderArgs]) -> str:
        assert all(isinstance(line.price, Decimal) for line in job.args.lines)
        return told(job)


@registry.register
class ParcelWorker(Worker[ParcelArgs]):
    def work(self, job: Job[ParcelArgs]) -> str:
        return told(job)


@registry.register
class InvoiceWorker(Worker[InvoiceArgs]):
    def work(self, job: Job[InvoiceArgs]) -> str:
        return told(job)


@registry.register
class LabelWorker(Worker[LabelArgs]):
    def work(self, job: Job[LabelArgs]) -> str:
        return told(job)


@registry.register
class ReviewWorker(Worker[ReviewDict], kind=REVIEW):
    def work(self, job: Job[ReviewDict]) -> str:
        return told(job)


def main() -> None:
    """Enqueue one job of each sort, and one that is refused."""
    order = UUID(int=7)
    with Client(database.url()) as client:
        client.enqueue(OrderArgs(order, datetime.now(UTC), [Line("tea", Decimal("3.20"), Size.LARGE)]))
        client.enqueue(ParcelArgs(order, grams=250))
        client.enqueue(InvoiceArgs(order=order, total=Decimal("3.20")))
        client.enqueue(LabelArgs(parcel=1, png=b"\x89PNG"))
        client.enqueue(ReviewDict(order=str(order), stars=5), kind=REVIEW)
        try:
            client.enqueue(OrderArgs(order, datetime.now(UTC), note="a NUL: \0"))
        except FastqError as error:
            print(f"refused: {error}")
    print("enqueued 5 jobs")


if __name__ == "__main__":
    main()
