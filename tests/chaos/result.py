"""A row of the failover table, for people and for machines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.checker import quantile
from tests.chaos.witness import Testimony

COLUMNS = (
    "name",
    "cycles",
    "takeover_p50_s",
    "takeover_p99_s",
    "takeover_max_s",
    "outage_max_s",
    "bound_s",
    "terms",
    "writes",
    "stale",
)


@dataclass
class Result:
    """What a row brought. `bound` is for a takeover without the time that the server itself was away."""

    name: str
    cycles: int
    bound: float | None = None
    takeovers: list[float] = field(default_factory=list)
    outages: list[float] = field(default_factory=list)
    changed: int = 0  # times that another supervisor led afterwards
    terms: Sequence[int] = ()
    writes: int = 0
    stale: int = 0
    figures: dict[str, Any] = field(default_factory=dict)  # what only this row has
    problems: list[str] = field(default_factory=list)
    note: str = ""

    def add(self, takeover: float, outage: float = 0.0, *, changed: bool = True) -> None:
        """Enter one cycle."""
        self.takeovers.append(takeover)
        self.outages.append(outage)
        self.changed += changed
        if self.bound is not None and takeover - outage > self.bound:
            self.problems.append(
                f"cycle {len(self.takeovers)}: {takeover:.3f} s, of which the server was away for {outage:.3f} s"
            )

    def testify(self, testimony: Testimony, terms: Sequence[int]) -> None:
        """Enter what the witness saw."""
        self.terms, self.writes, self.stale = list(terms), testimony.writes, testimony.stale
        if testimony.stale:
            self.problems += [f"stale write: {example}" for example in testimony.examples]
        if not testimony.writes:
            self.problems.append("no chore wrote anything: this run shows nothing")
        if list(terms) != sorted(terms):
            self.problems.append(f"the terms did not grow: {terms}")

    @property
    def passed(self) -> bool:
        """Tell whether it is as it must be."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        away = max(self.outages, default=0.0)
        figures = {
            "name": self.name,
            "cycles": self.cycles,
            "takeover_p50_s": quantile(self.takeovers, 0.5),
            "takeover_p99_s": quantile(self.takeovers, 0.99),
            "takeover_max_s": max(self.takeovers, default=None),
            "outage_max_s": away,
            "bound_s": None if self.bound is None else self.bound + away,
            "changed_hands": self.changed,
            "terms": len(self.terms),
            "writes": self.writes,
            "stale": self.stale,
            **self.figures,
            "passed": self.passed,
            "problems": self.problems[:20],
            "note": self.note,
        }
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def table(results: Sequence[Result]) -> str:
    """Return a table in Markdown."""
    lines = [
        "| fault | cycles | takeover p50 | p99 | max | server away, max | bound | terms | chore writes | stale | |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for result in results:
        row = result.as_json()
        cells = [_cell(row[name]) for name in COLUMNS]
        remark = "; ".join(
            [*(f"{name} {value}" for name, value in result.figures.items()), *([result.note] if result.note else [])]
        )
        verdict = "" if result.passed else "**missed**"
        lines.append(f"| {' | '.join(cells)} | {' '.join(filter(None, (verdict, remark)))} |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f} s" if isinstance(value, float) else str(value)
