"""All cells, in the order in which they are asked and shown; the cells in `fastq bench`: as numbers, as a table, as a picture.

Run in the main thread of the program that measures, on its connection; the answers are its own. A new cell is a line here: a
`Cell` with its function, of a module of this room. `fastq/bench/command.py` calls this module by its name.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from fastq.bench.cells import plot, rates, spreads, streams
from fastq.bench.cells.cell import Stage
from fastq.bench.cells.own import Fastq
from fastq.bench.cells.spreads import HOSTS, QUEUES
from fastq.cli.terminal import output
from fastq.errors import FastqError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastq.bench.cells.cell import Figures, System
    from fastq.config import Config
    from fastq.postgres.db import Connection

CELLS = (
    rates.BACKLOG,
    streams.IDLE,
    streams.TRICKLING,
    streams.LOADED,
    spreads.MANY_QUEUES,
    spreads.RESTING_QUEUES,
    spreads.MANY_HOSTS,
    rates.SLEEPING,
    rates.NAPPING,
    rates.COMPUTING,
    rates.FAILING,
    rates.DELAYED,
    rates.LARGE,
    streams.ENQUEUED,
)
BY_NAME = {cell.name: cell for cell in CELLS}
NAMES = tuple(BY_NAME)

RATES = ("backlog", "large", "sleep", "nap", "cpu", "retry", "delay")
"""Cells of which the picture shows the rate as a bar."""

SMALL = 100
"""Figures below show decimals."""


class Answer:
    """The figures of a cell, round after round. Written by the program that measures, once a round."""

    def __init__(self) -> None:
        self.rounds: list[Figures] = []
        self.failed = ""  # the reason for which a round has no figures
        self.samples: list[float] = []  # single latencies of all rounds, where a cell has some

    def figure(self, name: str) -> float | None:
        """Return the median of a figure over the rounds; None if there is none."""
        values = self.values(name)
        return median(values) if values else None

    def values(self, name: str) -> list[float]:
        """Return a figure of each round."""
        return [figures[name] for figures in self.rounds if name in figures]


def run(system: System, names: Sequence[str], rounds: int, scale: float, tell: Callable[[str], None]) -> dict[str, Answer]:
    """Ask some cells of a system, each as often as there are rounds; the rounds take turns, so that all see the same machine."""
    answers = {name: Answer() for name in names}
    for round_ in range(rounds):
        for place, name in enumerate(names):
            step = round_ * len(names) + place + 1
            tell(f"measuring {step} of {rounds * len(names)}, {name}: {BY_NAME[name].question}")
            stage, answer = Stage(system, scale), answers[name]
            try:
                answer.rounds.append(BY_NAME[name].measure(stage))
            except FastqError as error:  # the other cells are still worth asking
                answer.failed = str(error)
                tell(f"{name} has no figures: {error}")
            answer.samples += stage.samples
    return answers


def asked(connection: Connection, config: Config, scale: float, names: Sequence[str], rounds: int) -> dict[str, Any]:
    """Ask cells, all of them once if none is named; return the figures of each with all of its rounds."""
    answers = run(Fastq(connection, config), names or NAMES, rounds if names else 1, min(1.0, scale), output.note)
    return {
        name: {
            "question": BY_NAME[name].question,
            "figures": {figure: answer.figure(figure) for figure in BY_NAME[name].figures if answer.values(figure)},
            "rounds": answer.rounds,
            "failed": answer.failed,
            "samples": [round(value, 3) for value in answer.samples],
        }
        for name, answer in answers.items()
    }


def show(cells: Mapping[str, Any]) -> None:
    """Print the figures for a person."""
    rows, explained = [], {}
    for name, cell in cells.items():
        for figure, value in cell["figures"].items():
            values = [each[figure] for each in cell["rounds"] if figure in each]
            spread = f"{_written(min(values))} .. {_written(max(values))}" if len(values) > 1 else ""
            rows.append((name, figure, _written(value), spread))
            explained[figure] = BY_NAME[name].figures[figure]
    output.out()
    output.table(("cell", "figure", "value", "range"), rows)
    output.out()
    longest = max(map(len, [*explained, *cells]))
    for name, cell in cells.items():
        output.out(f"{name:{longest}s}  {cell['question']}")
        if cell["failed"]:
            output.out(f"{'':{longest}s}  has no figures: {cell['failed']}")
    output.out()
    for figure, text in explained.items():
        output.out(f"{figure:{longest}s}  {text}")


def picture(result: Mapping[str, Any]) -> str:
    """Draw what was measured: rates beside the floor's, latencies, and the curves over queues and hosts."""
    cells = result.get("cells", {})
    rated = [name for name in RATES if "jobs_per_s" in cells.get(name, {}).get("figures", {})]
    bars = [plot.Bar(name, cells[name]["figures"]["jobs_per_s"]) for name in rated]
    for name, label in (("jobs_per_s", "no-op jobs, route"), ("floor_jobs_per_s", "no-op jobs, floor")):
        if result.get(name):
            bars.insert(0, plot.Bar(label, result[name], floor="floor" in name))
    curves = {
        "jobs/s over queues": _points(cells.get("queues"), "queues_{}_per_s", QUEUES),
        "jobs/s over hosts": _points(cells.get("hosts"), "hosts_{}_per_s", HOSTS),
        "us of Postgres for a job, over hosts": _points(cells.get("hosts"), "hosts_{}_server_us", HOSTS),
    }
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items())
    return plot.drawn(f"fastq bench: {versions}", bars, cells.get("idle", {}).get("samples", ()), curves)


def _points(cell: Mapping[str, Any] | None, figure: str, counts: Sequence[int]) -> list[tuple[int, float]]:
    figures = {} if cell is None else cell["figures"]
    return [(count, figures[figure.format(count)]) for count in counts if figure.format(count) in figures]


def _written(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) < SMALL else f"{value:,.0f}"
