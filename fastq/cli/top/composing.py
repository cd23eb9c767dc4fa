"""Compose the screen of what is shown and seen: a pure function of values, for any size.

Run in the main thread, some times a second. From the top: the cluster and the age of the figures, totals, the gravest notice or
the state of the connection, the views, the list or the job, a sentence or a question, the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastq.cli.history.stats import span as lasting
from fastq.cli.top import onejob
from fastq.cli.top.columns import Line, Span, cut, justified, laid, text_of
from fastq.cli.top.panes import PANES, summed
from fastq.cli.top.pressing import VIEWS, Shown

if TYPE_CHECKING:
    from fastq.cli.top.figures import Figures

HELP = """\
1-5  Tab  ← →     the views: queues, running jobs, jobs, failures, processes
↑ ↓  j k          choose a row; PgUp, PgDn, Home, End go further
Enter             look into it: the jobs of a queue, or all about one job
s                 in a job that runs: ask its process anew where it is
Esc               back; in a list: end the filter
/                 filter: queue:mails kind:report state:discarded
r                 retry the job; in Failures: replay the jobs of the group
c                 cancel the job
p  u              pause, resume the queue; elsewhere: the kind of the job
?                 this help
q  Ctrl-C         quit

r, c, p and u ask first, and need --operate.

avail, run, sched, retry, wait are the states of jobs that live; run has those
that wait in their process for an executor, too. waited: from when a job was
due to its start; ran: from there to the end of its work; both of the last 5
minutes. jobs/s and failed/min are of the last one to two minutes; a bar is a
minute. A count with + has stopped there.

fastq top --once prints a view, --once --json all of them.
"""

SMALLEST = (40, 10)
"""Columns and lines below which there is only a request for more."""

OLD = 3.0
"""Times as old as the figures normally become, from which on their age is a warning."""


class Seen(NamedTuple):
    """The things that the watcher has told last, at this moment."""

    figures: Figures | None
    age: float  # seconds since they were read
    every: float  # seconds between two looks
    trouble: str | None  # why there are no newer ones
    troubled: float  # seconds since then
    slow: bool
    about: str  # which database


class Composed(NamedTuple):
    """A screen: its lines, and how many rows of a list it has."""

    lines: list[Line]
    page: int


def composed(shown: Shown, seen: Seen, width: int, height: int) -> Composed:
    """Return the lines of the screen, as many as it has."""
    if width < SMALLEST[0] or height < SMALLEST[1]:
        return Composed([cut([(f"fastq top takes {SMALLEST[0]} x {SMALLEST[1]} at least", "")], width)], 1)
    top = [_title(seen, width), *_tops(seen, width), _tabs(shown, width)]
    bottom = [_sentence(shown, width), _keys(shown, width)]
    room = height - len(top) - len(bottom)
    body, page = _body(shown, seen, width, room)
    return Composed([*top, *body, *([[]] * (room - len(body))), *bottom], page)


def _title(seen: Seen, width: int) -> Line:
    left: Line = [(" fastq top ", "bold reverse"), (f" {text_of(seen.about)}", "")]
    if seen.figures is None:
        return justified(left, [("looking …", "dim")], width)
    old = seen.age > OLD * seen.every
    right: list[Span] = [(f"{seen.figures.at:%H:%M:%S} UTC, ", "dim"), (f"{seen.age:.0f} s ago", "yellow" if old else "dim")]
    if seen.slow:
        right.insert(0, (f"slow: every {seen.every:.0f} s  ", "yellow"))
    return justified(left, right, width)


def _tops(seen: Seen, width: int) -> list[Line]:
    """Return the totals, and the worst thing that there is to say."""
    totals = cut(summed(seen.figures, width), width) if seen.figures else []
    if seen.trouble is not None:
        text = f" no database for {lasting(seen.troubled)}, trying again: {text_of(seen.trouble)}"
        return [totals, [(line, "bold white on red") for line in _padded(text, width)]]
    notices = seen.figures.notices if seen.figures else []
    if not notices:
        return [totals, []]
    more = f"  (+{len(notices) - 1})" if len(notices) > 1 else ""
    style = "red" if notices[0].grave else "yellow"
    return [totals, justified([(f"! {text_of(notices[0].text)}", style)], [(more, style)], width)]


def _padded(text: str, width: int) -> list[str]:
    [(line, _)] = cut([(text + " " * width, "")], width)
    return [line]


def _tabs(shown: Shown, width: int) -> Line:
    tabs: Line = []
    for number, name in enumerate(VIEWS, 1):
        tabs += [(f" {number} {PANES[name].title} ", "reverse" if name == shown.view else ""), (" ", "")]
    return justified(tabs, [(f"/{text_of(shown.filter)}", "bold yellow")] if shown.filter else [], width)


def _body(shown: Shown, seen: Seen, width: int, room: int) -> tuple[list[Line], int]:
    if shown.help:
        return _part([[(line, "")] for line in HELP.splitlines()], shown, width, room)
    if seen.figures is None:
        return [], room
    if shown.job is not None:
        job = seen.figures.job
        if job is None or job.id != shown.job:
            return [[(f"looking at job {shown.job} …", "dim")]], room
        return _part(onejob.lines(job, width), shown, width, room)
    if shown.view not in seen.figures.wanted.views:
        return [[("looking …", "dim")]], room
    return table(shown.view, seen.figures, width, room, shown)


def _part(lines: list[Line], shown: Shown, width: int, room: int) -> tuple[list[Line], int]:
    """Return the lines from the place on to which was scrolled; that place is corrected to one that there is."""
    shown.scroll = min(shown.scroll, max(0, len(lines) - room))
    part = [cut(line, width) for line in lines[shown.scroll : shown.scroll + room]]
    left = len(lines) - shown.scroll - room
    if left > 0:
        part[-1] = [(f"  ↓ {left + 1} lines more", "dim")]
    return part, room - 1


def table(view: str, figures: Figures, width: int, room: int | None, shown: Shown | None) -> tuple[list[Line], int]:
    """Return the lines of a view, and how many rows fit; `room` None: all of its rows, and none is chosen."""
    pane = PANES[view]
    rows = pane.rows(figures)
    note = pane.note(figures)
    notes: list[Line] = [cut([(note, "dim")], width)] if note else []
    if not rows:
        return [cut([(pane.empty, "dim")], width), *notes], 1
    cells = [pane.cells(one, figures, width) for one in rows]
    found = laid(pane.columns, cells, width)
    head = found.heads(width)
    page = max(len(rows) if room is None else room - len(head) - len(notes), 1)
    chosen = shown.place(rows) if shown is not None else -1
    first = _first(shown, chosen, len(rows), page) if shown is not None else 0
    body = [found.row(one, width, chosen=place == chosen) for place, one in enumerate(cells[first : first + page], first)]
    return [*head, *body, *notes], page


def _first(shown: Shown, chosen: int, rows: int, page: int) -> int:
    """Return the first row on the screen, so that the chosen one is on it."""
    first = min(shown.tops.get(shown.view, 0), max(rows - page, 0))
    first = min(max(first, chosen - page + 1), chosen)
    shown.tops[shown.view] = first
    return first


def _sentence(shown: Shown, width: int) -> Line:
    if shown.asked is not None:
        return cut([(f"{text_of(shown.asked.question)} ", "bold yellow"), (text_of(shown.asked.explained), "")], width)
    if shown.typed is not None and not shown.said:
        return cut([("words like queue:mails kind:report state:discarded; none: all", "dim")], width)
    return cut([(text_of(shown.said), "bold")], width)


def _keys(shown: Shown, width: int) -> Line:
    if shown.asked is not None:
        return _told([("y", "do it"), ("any other", "leave it")], "", width)
    if shown.typed is not None:
        left = text_of(shown.typed)
        return cut([("/", "bold yellow"), (left[-(width - len("/_")) :], ""), ("_", "bold")], width)
    keys = [("?", "help"), ("/", "filter"), ("Enter", "show"), ("q", "quit")]
    if shown.help or shown.job is not None:
        keys = [("Esc", "back"), ("↑↓", "scroll"), ("?", "help"), ("q", "quit")]
    if shown.operate and not shown.help:
        keys[-1:-1] = [("r", "retry"), ("c", "cancel"), ("p", "pause"), ("u", "resume")]
    return _told(keys, "" if shown.operate else "read-only", width)


def _told(keys: list[tuple[str, str]], right: str, width: int) -> Line:
    left: Line = []
    for key, meaning in keys:
        left += [(key, "bold"), (f" {meaning}  ", "")]
    return justified(left, [(right, "dim")] if right else [], width)
