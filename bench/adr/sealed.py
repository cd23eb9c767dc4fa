"""Measure what docs/adr/0032 says that encrypted args cost: `python bench/adr/sealed.py`.

It writes and reads args of two fields in one process, without a database: plain ones, ones that are encrypted as a whole, and
ones of which a field is encrypted. The figures are CPU time, the best of seven rounds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from fastq import Args, Secret, use_keys
from fastq.args.kinds import kind_of

ROUNDS, JOBS = 7, 2_000
CARD = "4111111111111111"


@dataclass
class PlainArgs(Args, kind="plain"):
    card: str
    cents: int


@dataclass
class WholeArgs(Args, kind="whole", encrypted=True):
    card: str
    cents: int


@dataclass
class FieldArgs(Args, kind="field"):
    card: Secret[str]
    cents: int


def best(action: Callable[[], object]) -> float:
    """Return the microseconds of CPU for each job, in the best round."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times) / JOBS * 1e6


def main() -> None:
    """Measure the three."""
    use_keys({"bench": bytes(32)})
    for args in (PlainArgs(CARD, 5), WholeArgs(CARD, 5), FieldArgs(Secret(CARD), 5)):
        codec = kind_of(args).codec
        blob = b"[" + b",".join([codec.encode(args)] * JOBS) + b"]"
        encode = best(lambda codec=codec, args=args: [codec.encode(args) for _ in range(JOBS)])  # type: ignore[misc]
        decode = best(lambda codec=codec, blob=blob: codec.decode_whole(blob))  # type: ignore[misc]
        print(f"{type(args).__name__:10} encode {encode:5.2f} us, decode {decode:5.2f} us")


if __name__ == "__main__":
    main()
