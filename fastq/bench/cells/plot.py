"""Pictures of the figures, as one SVG of our own: bars of rates, a histogram of latencies, curves over queues and hosts.

Called in the main thread of the program that measures, at its end. Functions of values, which keep nothing. The picture takes
the colours of the reader's system, light or dark, and has no script; all that is drawn is in the JSON as well.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH, LEFT, RIGHT = 860, 190, 110
"""Pixels of the picture, and those left of and behind its bars, for names and numbers."""

LINE, GAP, TITLE = 22, 40, 30
"""Pixels of a bar with its rest, between two charts, and of a chart's title."""

TALL, BINS = 150, 40
"""Pixels of a histogram or curve, and bars of a histogram: as many as one can tell apart there."""

CUT = 0.99
"""The share of the latencies that the histogram shows: a single late one would press all others into one bar."""

FEWEST = 2
"""Points of a curve at least."""

STYLE = """
svg { background: #ffffff; color: #1f2328; font: 13px system-ui, sans-serif; }
text { fill: currentColor; } .title { font-weight: 600; } .faint { fill: #6e7781; }
.bar { fill: #2f6feb; } .floor { fill: #afb8c1; } .curve { stroke: #2f6feb; fill: none; stroke-width: 2; }
.axis { stroke: #afb8c1; } .mark { stroke: #cf5c00; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; color: #e6edf3; } .faint { fill: #8d96a0; } .bar { fill: #5b94ff; }
  .floor { fill: #484f58; } .curve { stroke: #5b94ff; } .axis { stroke: #484f58; } .mark { stroke: #ffa657; }
}
"""


class Bar(NamedTuple):
    """A bar with its name; that of a floor is drawn in the colour of the background."""

    name: str
    value: float
    floor: bool = False


def drawn(
    title: str,
    bars: Sequence[Bar],
    latencies: Sequence[float],
    curves: Mapping[str, Sequence[tuple[int, float]]],
    unit: str = "jobs/s",
) -> str:
    """Return the whole picture; a chart without values is left out."""
    top = 50.0
    parts = [_text(16, 28, title, "title")]
    if bars:
        text, top = _bars(top, f"rates, in {unit}", bars)
        parts.append(text)
    if latencies:
        text, top = _histogram(top, "from commit to work, in ms", sorted(latencies))
        parts.append(text)
    for name, points in curves.items():
        if len(points) >= FEWEST:
            text, top = _curve(top, name, points)
            parts.append(text)
    size = f'viewBox="0 0 {WIDTH} {top:.0f}" width="{WIDTH}" height="{top:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"


def _bars(top: float, title: str, bars: Sequence[Bar]) -> tuple[str, float]:
    most = max(bar.value for bar in bars) or 1.0
    parts = [_text(16, top + 16, title, "title")]
    for row, bar in enumerate(bars):
        y, width = top + TITLE + row * LINE, max(1.0, bar.value / most * (WIDTH - LEFT - RIGHT))
        parts += [
            _text(LEFT - 10, y + 13, bar.name, "", "end"),
            _box(LEFT, y, width, LINE - 6, "floor" if bar.floor else "bar"),
            _text(LEFT + width + 8, y + 13, f"{bar.value:,.0f}", "faint"),
        ]
    return "\n".join(parts), top + TITLE + len(bars) * LINE + GAP


def _histogram(top: float, title: str, ordered: Sequence[float]) -> tuple[str, float]:
    shown = ordered[: max(1, int(len(ordered) * CUT))]
    low, high = shown[0], max(shown[-1], shown[0] + 1e-9)
    counts = [0] * BINS
    for value in shown:
        counts[min(BINS - 1, int((value - low) / (high - low) * BINS))] += 1
    wide, bottom = (WIDTH - LEFT - RIGHT) / BINS, top + TITLE + TALL
    parts = [_text(16, top + 16, title, "title"), _axis(bottom)]
    for place, count in enumerate(counts):
        tall = count / max(counts) * TALL
        parts.append(_box(LEFT + place * wide, bottom - tall, wide - 1, tall, "bar"))
    for name, share in (("p50", 0.5), ("p99", CUT)):
        value = ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        x = LEFT + min(1.0, (value - low) / (high - low)) * (WIDTH - LEFT - RIGHT)
        parts += [_mark(x, bottom), _text(x + 4, top + TITLE + 10, f"{name} {value:.2f}", "faint")]
    parts += [_text(LEFT, bottom + 16, f"{low:.2f}", "faint"), _text(WIDTH - RIGHT, bottom + 16, f"{high:.2f}", "faint", "end")]
    return "\n".join(parts), bottom + GAP


def _curve(top: float, title: str, points: Sequence[tuple[int, float]]) -> tuple[str, float]:
    """Draw values over counts; the counts stand at even distances, since each is several times the one before."""
    most, bottom = max(value for _, value in points) or 1.0, top + TITLE + TALL
    step = (WIDTH - LEFT - RIGHT) / (len(points) - 1)
    places = [(LEFT + place * step, bottom - value / most * TALL) for place, (_, value) in enumerate(points)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [_text(16, top + 16, title, "title"), _axis(bottom), f'<polyline class="curve" points="{line}"/>']
    for (x, y), (count, value) in zip(places, points, strict=True):
        parts += [
            f'<circle class="bar" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
            _text(x, y - 8, f"{value:,.0f}", "faint", "middle"),
            _text(x, bottom + 16, f"{count:,}", "", "middle"),
        ]
    return "\n".join(parts), bottom + GAP


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{kind}"/>'


def _axis(y: float) -> str:
    return f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="axis"/>'


def _mark(x: float, bottom: float) -> str:
    return f'<line x1="{x:.1f}" y1="{bottom - TALL:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="mark"/>'
