"""`make bench-check`: tell whether fastq stands beside the floor as it did. `python -m bench.check [--write] [--rounds 3]`.

The floor is raw SQL that any queue needs (`bench/peers/programs/floor_cells.py`), asked the same in the same run, in turns: its
figures rise and fall with the machine, as fastq's do, and their ratio much less. `--write` records the ratios of this run, before
a change; without it a ratio that is worse by more than a tenth than the record fails the check. The record is this machine's own:
a ratio still depends on its cores and its disk.
"""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.peers.__main__ import measured, parser
from fastq.bench.cells.cell import Figures

FILE = Path(__file__).parent / "results" / "local-check.json"
ALLOWED = 0.10  # a tenth: medians of three rounds differ by 5 % on a machine that is shared
FIGURES = {  # cell -> its figures, with whether less is better
    "backlog": {"jobs_per_s": False, "server_us": True},
    "large": {"jobs_per_s": False, "server_us": True},
    "idle": {"p50_ms": True},
    "trickle": {"server_us": True, "client_us": True},
    "load": {"server_us": True},
    "queues": {"queues_100_per_s": False},
    "enqueue": {"single_per_s": False, "threads_per_s": False, "batch_per_s": False},
}


def ratios(rounds: dict[str, dict[str, list[Figures]]]) -> dict[str, float]:
    """Return how much better fastq is than the floor, by figure: the median over the rounds, each with its own floor."""
    found = {}
    for cell, figures in FIGURES.items():
        if any(system not in rounds.get(cell, {}) for system in ("fastq", "floor")):
            continue
        for figure, less in figures.items():
            pairs = zip(rounds[cell]["fastq"], rounds[cell]["floor"], strict=True)
            each = [(floor[figure] / own[figure]) if less else (own[figure] / floor[figure]) for own, floor in pairs]
            found[f"{cell}.{figure}"] = round(median(each), 3)
    return found


def worse(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """Say which ratios are worse by more than is allowed."""
    return [
        f"{name}: {now[name]:.3f} of the floor, and it was {before[name]:.3f}: {(now[name] / before[name] - 1) * 100:+.0f} %"
        for name in before
        if name in now and now[name] < before[name] * (1 - ALLOWED)
    ]


def main(argv: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m bench.check", description=__doc__)
    options.add_argument("--write", action="store_true", help="record the ratios of this run")
    options.add_argument("--rounds", default="3")
    options.add_argument("--scale", default="0.5")
    given = options.parse_args(argv)
    if not (given.write or FILE.exists()):
        print(f"no ratios are on record: python -m bench.check --write, before the change, writes {FILE.name}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        words = ["--only", "fastq,floor", "--cells", ",".join(FIGURES), "--rounds", given.rounds, "--scale", given.scale]
        result = measured(stack, parser().parse_args(words))
    now = ratios({name: cell["rounds"] for name, cell in result["cells"].items()})
    if given.write:
        FILE.write_text(json.dumps({"date": result["date"], "machine": result["machine"], "ratios": now}, indent=1) + "\n")
        return 0
    before = json.loads(FILE.read_text())
    if missing := set(before["ratios"]) - set(now):
        print(f"not measured: {', '.join(sorted(missing))}; see the lines above", file=sys.stderr)
        return 1
    for name, ratio in now.items():
        print(f"{name:26s} {ratio:7.3f} of the floor, {before['ratios'].get(name, float('nan')):7.3f} on {before['date']}")
    for line in (faults := worse(now, before["ratios"])):
        print(f"worse: {line}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
