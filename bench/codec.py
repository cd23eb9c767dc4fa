"""Tell how much faster the codec is than the best that pure Python can do with orjson and psycopg.

    decode_flat     a claim's args to dataclasses of five flat fields; against orjson for each job and the class's constructor
    decode_nested   the same for args with a list and an object in them
    encode          the five arrays of the statement that ends jobs; against psycopg's own adaptation of the same lists
    encode_ids      the ids of plain successes

Each is the time of the other way over ours, for batches of 1,000, the best of many short runs in one process, the two taking
turns. `python bench/codec.py` prints a table, `--json` the figures, `--codec python` measures the twin.
"""

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass

import orjson
from psycopg.adapt import PyFormat, Transformer

from fastq.args.kinds import Kind
from fastq.work.codec import codec, twin

BATCH = 1_000
ROUNDS = 150  # the best of so many; a shared machine disturbs most of them
ENDS = ["completed", "cancelled", "discarded"]


@dataclass
class Mail:
    user_id: int
    template: str
    weight: float
    urgent: bool
    reply_to: str | None = None


@dataclass
class Size:
    width: int
    height: int


@dataclass
class Resize:
    image: str
    sizes: list[Size]
    tags: list[str]
    quality: int = 80


def mails() -> list[bytes]:
    return [
        orjson.dumps(
            {"user_id": 100_000 + n, "template": f"welcome-{n % 7}", "weight": n / 4, "urgent": n % 3 == 0, "reply_to": None}
        )
        for n in range(BATCH)
    ]


def resizes() -> list[bytes]:
    return [
        orjson.dumps(
            {
                "image": f"images/{n}.png",
                "sizes": [{"width": 10 * n, "height": n}, {"width": 7, "height": n}],
                "tags": ["a", str(n)],
                "quality": 70,
            }
        )
        for n in range(BATCH)
    ]


def make_resize(fields: dict) -> Resize:
    fields["sizes"] = [Size(**size) for size in fields["sizes"]]
    return Resize(**fields)


def ratio(theirs, ours) -> dict[str, float]:
    """Return the best times of both in us per job, and how often ours fits into theirs."""
    best = {theirs: float("inf"), ours: float("inf")}
    for _ in range(ROUNDS):
        for way, fastest in best.items():
            start = time.perf_counter()
            way()
            best[way] = min(fastest, time.perf_counter() - start)
    return {
        "theirs_us": round(best[theirs] / BATCH * 1e6, 4),
        "ours_us": round(best[ours] / BATCH * 1e6, 4),
        "ratio": round(best[theirs] / best[ours], 2),
    }


def decode(cls: type, make, rows: list[bytes], read) -> dict[str, float]:
    kind = Kind("bench", cls)
    blob = twin.BETWEEN.join(rows)
    loads = orjson.loads
    expected = [make(loads(row)) for row in rows]
    assert read(kind.codec, blob, BATCH) == (expected, [])
    return ratio(lambda: [make(loads(row)) for row in rows], lambda: read(kind.codec, blob, BATCH))


def encode() -> tuple[dict[str, float], dict[str, float]]:
    ids = list(range(10**9, 10**9 + BATCH))
    claims = [5 << 32 | 77] * BATCH
    states = [ENDS[n % 3] for n in range(BATCH)]
    errors = [None if n % 3 == 0 else f'{{"error":"ValueError: number {n}","trace":"line {n}"}}' for n in range(BATCH)]
    outputs = [f'{{"rows":{n}}}' if n % 3 == 0 else None for n in range(BATCH)]

    def theirs() -> object:
        return Transformer().dump_sequence([ids, claims, states, errors, outputs], [PyFormat.AUTO] * 5)

    def ours() -> object:
        texts = [codec.encode_texts(column) for column in (states, errors, outputs)]
        return [codec.encode_ids(ids), codec.encode_ids(claims), *texts]

    plain = ratio(lambda: Transformer().dump_sequence([ids], [PyFormat.AUTO]), lambda: codec.encode_ids(ids))
    return ratio(theirs, ours), plain


def measure(wanted: str) -> dict[str, object]:
    used = codec.use(wanted)
    read = twin.read
    if used == "c":
        from fastq.work.codec import core  # noqa: PLC0415 - may not be there

        read = core.read
    told, plain = encode()
    parts = {
        "decode_flat": decode(Mail, lambda fields: Mail(**fields), mails(), read),
        "decode_flat_slots": decode(SlotsMail, lambda fields: SlotsMail(**fields), mails(), read),
        "decode_nested": decode(Resize, make_resize, resizes(), read),
        "encode": told,
        "encode_ids": plain,
    }
    return {"codec": used} | {f"{name}_{what}": value for name, part in parts.items() for what, value in part.items()}


SlotsMail = dataclasses.make_dataclass(
    "SlotsMail",
    [(field.name, field.type, dataclasses.field(default=field.default)) for field in dataclasses.fields(Mail)],
    slots=True,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--codec", default="auto", choices=["auto", "c", "python"])
    options = parser.parse_args()
    figures = measure(options.codec)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"codec {figures['codec']}, batches of {BATCH}, us a job")
    for name in ("decode_flat", "decode_flat_slots", "decode_nested", "encode", "encode_ids"):
        theirs, ours = figures[f"{name}_theirs_us"], figures[f"{name}_ours_us"]
        print(f"{name:18s} {theirs:8.3f} pure Python {ours:8.3f} ours {figures[f'{name}_ratio']:8.2f} times")


if __name__ == "__main__":
    main()
