"""Tell by the shape of the args what the C core brings over its Python twin, at batches of any size: `python -m bench.shapes`.

Each figure is CPU time of this thread in us per job, the best of many short runs, the twins taking turns in one process; in
brackets the twin's time over that of C, above 1 where C is faster. A shape that C does not read has the twin's figure alone. No
database.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import attrs
import msgspec

from fastq.args.kinds import Kind
from fastq.work.codec import codec, core, twin

SIZES = (1, 8, 16, 32, 64, 256, 1_000, 5_000)
BUDGET = 0.03  # s of one turn, of as many runs as that takes
TURNS = 10
DAY = datetime(2026, 11, 20, 8, tzinfo=UTC)


class Tone(Enum):
    WARM = "warm"
    COLD = "cold"


@dataclass
class One:
    id: int


@dataclass
class Two:
    id: int
    name: str


@dataclass
class Flat:
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None = None


@dataclass(slots=True)
class Slots:
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None = None


@attrs.define
class Attrs:
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None = None


@dataclass(frozen=True)
class Frozen:
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None = None


class Struct(msgspec.Struct):
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None = None


class Mapping(TypedDict):
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None


@dataclass
class Optional:
    user_id: int
    template: str | None = None
    weight: float | None = None
    urgent: bool | None = None
    reply_to: str | None = None


@dataclass
class Lists:
    user_id: int
    template: str
    items: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


@dataclass
class Times:
    user_id: int
    template: str
    at: datetime
    until: date


@dataclass
class Mixed:
    user_id: int
    template: str
    key: UUID
    at: datetime
    tone: Tone
    items: list[int]


@dataclass
class Order:
    """The first class of docs/args.md: no flat field."""

    id: UUID
    total: Decimal
    placed_at: datetime
    articles: list[str]


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Nested:
    order: int
    customer: str
    lines: list[Line]
    labels: dict[str, str]


@dataclass
class Wide:
    id: int
    tenant: int
    email: str
    name: str
    template: str
    subject: str
    body: str
    weight: float
    urgent: bool
    attempts: int
    locale: str
    reply_to: str | None


def flat(cls: Any) -> Callable[[int], Any]:
    return lambda n: cls(user_id=n, template=f"welcome-{n % 7}", weight=n / 4, urgent=n % 3 == 0, reply_to=None)


def uuid(n: int) -> UUID:
    return UUID(int=n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)


SHAPES: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "one flat field": (One, One),
    "two": (Two, lambda n: Two(n, f"customer {n}")),
    "five": (Flat, flat(Flat)),
    "five, slots": (Slots, flat(Slots)),
    "five, attrs": (Attrs, flat(Attrs)),
    "five, frozen": (Frozen, flat(Frozen)),
    "five, Struct": (Struct, flat(Struct)),
    "five, TypedDict": (Mapping, flat(dict)),
    "five, four absent": (Optional, Optional),
    "twelve, 1 kB": (
        Wide,
        lambda n: Wide(n, 1, f"c-{n}@example.org", "C", "t", f"order {n}", "x" * 800, n / 4, True, 1, "en", None),
    ),
    "lists of scalars": (Lists, lambda n: Lists(n, "welcome", [n, n + 1, 7], ["a", str(n)])),
    "two times": (Times, lambda n: Times(n, "welcome", DAY + timedelta(seconds=n), DAY.date())),
    "mixed": (Mixed, lambda n: Mixed(n, "welcome", uuid(n), DAY + timedelta(seconds=n), Tone.WARM, [n, 7])),
    "no flat field": (Order, lambda n: Order(uuid(n), Decimal(n) / 4, DAY + timedelta(seconds=n), ["a-1", f"b-{n}"])),
    "nested": (Nested, lambda n: Nested(n, "somebody", [Line("a-1", 2), Line("b-2", n)], {"region": "north", "channel": "web"})),
}


def compared(cls: Any, make: Callable[[int], Any], size: int) -> tuple[float, float | None]:
    """Return us per job of the twin and of C, None where C does not read this shape."""
    kind = Kind("shape", cls)
    blob = twin.BETWEEN.join([msgspec.json.encode(make(n)) for n in range(size)])
    ways: dict[str, Callable[[], Any]] = {"twin": lambda: twin.read(kind.codec, blob, size)}
    if core.plan_of(kind.codec) is not None:
        ways["c"] = lambda: core.read(kind.codec, blob, size)
        assert ways["c"]() == ways["twin"]()
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS):
        for name, way in ways.items():
            best[name] = min(best[name], fastest(way))
    return best["twin"] / size * 1e6, best["c"] / size * 1e6 if "c" in best else None


def fastest(way: Callable[[], object]) -> float:
    """Return the shortest of some runs; what was made is gone before the clock stops, as the jobs of a claim go."""
    until, best = time.thread_time() + BUDGET / TURNS, float("inf")
    while True:
        began = time.thread_time_ns()
        for _ in range(3):
            way()
        took = (time.thread_time_ns() - began) / 3e9
        best = min(best, took)
        if time.thread_time() > until:
            return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", default="", help="shapes whose names have this in them")
    options = parser.parse_args()
    codec.use("c")
    figures: dict[str, dict[str, list[float | None]]] = {}
    if not options.json:
        print("us per job, twin / C (twin over C); batches of", *SIZES)
    for name, (cls, make) in SHAPES.items():
        if options.only not in name:
            continue
        told = {size: compared(cls, make, size) for size in SIZES}
        figures[name] = {str(size): [round(us, 4) if us is not None else None for us in pair] for size, pair in told.items()}
        if not options.json:
            print(
                f"{name:18s}",
                *(f"{ours:6.2f} {f'/{c:6.2f} ({ours / c:4.2f})' if c else '':15s}" for ours, c in told.values()),
                flush=True,
            )
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
