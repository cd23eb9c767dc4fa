"""The result of `python -m bench.peers` as Markdown: `python -m bench.peers.table FILE.json ...` puts several runs together.

A figure is the median of its rounds; a table of a cell has the least and the most beside it where there are several.
"""

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from fastq.bench.cells.table import BY_NAME

SMALL = 100  # figures below show decimals


def markdown(result: dict[str, Any]) -> str:
    """Return all tables."""
    lines = [*_machine(result), "", "## All cells", "", *_overview(result)]
    for name, cell in result["cells"].items():
        lines += ["", f"## {name}: {cell['question']}", "", *_cell(name, cell, list(result["systems"]))]
    return "\n".join([*lines, "", "## Settings", "", *_settings(result)])


def joined(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Put runs together that had different cells or systems; rounds of the same cell and system follow each other."""
    whole = results[0]
    for result in results[1:]:
        whole["command"] += f"; {result['command']}"
        for name, system in result["systems"].items():
            if name not in whole["systems"] or "absent" in whole["systems"][name]:
                whole["systems"][name] = system
        for name, cell in result["cells"].items():
            into = whole["cells"].setdefault(name, {"question": cell["question"], "rounds": {}, "lacking": {}})
            for system, rounds in cell["rounds"].items():
                into["rounds"].setdefault(system, []).extend(rounds)
            into["lacking"] |= cell["lacking"]
    for cell in whole["cells"].values():
        cell["lacking"] = {name: why for name, why in cell["lacking"].items() if name not in cell["rounds"]}
    whole["cells"] = {name: whole["cells"][name] for name in BY_NAME if name in whole["cells"]}
    return whole


def _machine(result: dict[str, Any]) -> list[str]:
    machine, own = result["machine"], result["systems"].get("fastq", {}).get("settings", {})
    versions = ", ".join(f"{name} {value}" for name, value in own.get("versions", {}).items())
    return [
        f"Measured {result['date']} UTC by `{result['command']}`.",
        "",
        f"{machine['cores']} cores ({machine['cpu']}) for programs and servers together, {machine['system']}. {versions}.",
    ]


def _overview(result: dict[str, Any]) -> list[str]:
    present = [name for name, system in result["systems"].items() if "absent" not in system]
    lines = [f"| cell | figure | {' | '.join(present)} |", "|---" * (len(present) + 2) + "|"]
    for name, cell in result["cells"].items():
        asked = BY_NAME[name]
        first = next(iter(asked.figures))
        values = {system: _median(cell["rounds"].get(system, []), first) for system in present}
        there = [value for value in values.values() if value is not None]
        best = (min if asked.least else max)(there) if there else None
        cells = [
            "none" if value is None else f"**{_written(value)}**" if value == best else _written(value)
            for value in values.values()
        ]
        lines.append(f"| {name} | {first} | {' | '.join(cells)} |")
    absent = {name: system["absent"] for name, system in result["systems"].items() if "absent" in system}
    lines += ["", *(f"- {name} is not in the table: {why}." for name, why in absent.items())]
    return [*lines, "", "Bold is the best of a row. For none see the table of the cell; it may not have been asked."]


def _cell(name: str, cell: dict[str, Any], systems: list[str]) -> list[str]:
    figures = [
        figure for figure in BY_NAME[name].figures if any(figure in each for all_ in cell["rounds"].values() for each in all_)
    ]
    lines = [f"| system | {' | '.join(figures)} |", "|---" * (len(figures) + 1) + "|"]
    asked = [(system, cell["rounds"][system]) for system in systems if system in cell["rounds"]]
    lines += [f"| {system} | {' | '.join(_spread(rounds, figure) for figure in figures)} |" for system, rounds in asked]
    lines += ["", *(f"- {figure}: {BY_NAME[name].figures[figure]}." for figure in figures)]
    return lines + [f"- {system}: {why}." for system, why in cell["lacking"].items()]


def _settings(result: dict[str, Any]) -> list[str]:
    lines = ["| system | version | settings |", "|---|---|---|"]
    for name, system in result["systems"].items():
        if "absent" not in system:
            said = "; ".join(f"{key} {value}" for key, value in system["settings"].items() if key != "versions")
            lines.append(f"| {name} | {system['version']} | {said} |")
    return lines


def _values(rounds: list[dict[str, float]], figure: str) -> list[float]:
    return [each[figure] for each in rounds if figure in each]


def _median(rounds: list[dict[str, float]], figure: str) -> float | None:
    values = _values(rounds, figure)
    return median(values) if values else None


def _spread(rounds: list[dict[str, float]], figure: str) -> str:
    values = _values(rounds, figure)
    if not values:
        return "none"
    text = _written(median(values))
    return f"{text} ({_written(min(values))} to {_written(max(values))})" if len(values) > 1 else text


def _written(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) < SMALL else f"{value:,.0f}"


if __name__ == "__main__":
    whole = joined([json.loads(Path(name).read_text()) for name in sys.argv[1:]])
    print(markdown(whole))
