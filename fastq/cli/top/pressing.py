"""What keys do: a `Shown` says what is on the screen, and each key changes it.

Run in the main thread alone, which owns the `Shown`. Nothing here reads the database or the terminal: a change of the view asks
for other figures by `wanted`, and a confirmed deed is returned to the caller, for the watcher.

Invariants: a deed is returned only after its question was answered with y. A chosen row stays chosen by its key while rows come
and go around it; where its row is gone, the row at its place is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastq.cli.top import narrowed
from fastq.cli.top.deeds import KEYS, READ_ONLY, Deed, cancelling, deed_of, retrying
from fastq.cli.top.figures import Wanted
from fastq.cli.top.panes import PANES
from fastq.errors import FastqError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.cli.top.figures import Figures

VIEWS = tuple(PANES)
LONGEST_FILTER = 200
STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
SIDES = {"left": -1, "right": 1, "tab": 1, "backtab": -1}
END = 1_000_000
"""More lines than there are: as many steps lead to the first or the last."""


@dataclass(slots=True)
class Shown:
    """The things on the screen."""

    operate: bool = False
    view: str = VIEWS[0]
    filter: str = ""
    typed: str | None = None  # a filter that is being written
    job: int | None = None  # shown alone
    asked_anew: int = 0  # how often its stack was
    scroll: int = 0  # lines of that job, or of the help, above the screen
    help: bool = False
    asked: Deed | None = None  # its question is on the screen
    said: str = ""  # a sentence that stays until the next key
    quit: bool = False
    page: int = 10  # rows of the list on the screen; the main thread tells after each painting
    chosen: dict[str, Any] = field(default_factory=dict)  # by view: the key of the row
    places: dict[str, int] = field(default_factory=dict)  # by view: its place when it was seen last
    tops: dict[str, int] = field(default_factory=dict)  # by view: the first row on the screen

    @property
    def wanted(self) -> Wanted:
        """Say which figures are needed."""
        return Wanted((self.view,), narrowed.read(self.filter), self.job, self.asked_anew)

    def rows(self, figures: Figures) -> Sequence[Any]:
        """Return the rows of the view; none while the figures are still those of another one."""
        return PANES[self.view].rows(figures) if self.view in figures.wanted.views else ()

    def place(self, rows: Sequence[Any]) -> int:
        """Return the place of the chosen row, and remember it; -1 if there are no rows."""
        key_of = PANES[self.view].key
        wanted, place = self.chosen.get(self.view), self.places.get(self.view, 0)
        if wanted is not None:
            place = next((at for at, row in enumerate(rows) if key_of(row) == wanted), place)
        place = min(max(place, 0), len(rows) - 1)
        self.places[self.view] = max(place, 0)
        return place

    def choose(self, place: int, rows: Sequence[Any]) -> None:
        """Choose a row by its place, or the nearest that there is."""
        if rows:
            place = min(max(place, 0), len(rows) - 1)
            self.places[self.view], self.chosen[self.view] = place, PANES[self.view].key(rows[place])


def press(shown: Shown, key: str, figures: Figures | None) -> Deed | None:
    """Take a key; return a deed if it is to be done now."""
    if key in ("ctrl-c", "gone"):
        shown.quit = True
    elif shown.asked is not None:
        return _answered(shown, key)
    elif shown.typed is not None:
        _written(shown, key)
    else:
        shown.said = ""
        _plain(shown, key, figures)
    return None


def _answered(shown: Shown, key: str) -> Deed | None:
    deed, shown.asked = shown.asked, None
    if key in ("y", "Y"):
        shown.said = "…"
        return deed
    shown.said = "nothing was done"
    return None


def _written(shown: Shown, key: str) -> None:
    """Take a key of a filter."""
    text = shown.typed or ""
    if key == "esc":
        shown.typed = None
    elif key == "enter":
        try:
            narrowed.read(text)
        except FastqError as error:
            shown.said = str(error)
        else:
            shown.typed, shown.filter, shown.said = None, " ".join(text.split()), ""
            shown.tops.pop(shown.view, None)
    elif key == "backspace":
        shown.typed = text[:-1]
    elif key == "ctrl-u":
        shown.typed = ""
    elif len(key) == 1 and key.isprintable() and len(text) < LONGEST_FILTER:
        shown.typed = text + key


def _plain(shown: Shown, key: str, figures: Figures | None) -> None:
    if key == "q":
        shown.quit = True
    elif key == "?":
        shown.help, shown.scroll = not shown.help, 0
    elif shown.help:
        _scrolled(shown, key, closing=("esc", "enter"))
    elif key == "/":
        shown.typed, shown.job = (f"{shown.filter} " if shown.filter else ""), None
    elif key in SIDES or (key.isdecimal() and 0 < int(key) <= len(VIEWS)):
        place = VIEWS.index(shown.view) + SIDES[key] if key in SIDES else int(key) - 1
        shown.view, shown.job, shown.scroll = VIEWS[place % len(VIEWS)], None, 0
    elif key in KEYS:
        _begin(shown, key, figures)
    elif shown.job is not None and key == "s":
        shown.asked_anew += 1
    elif shown.job is not None:
        _scrolled(shown, key, closing=("esc", "enter", "backspace"))
    elif figures is not None:
        _moved(shown, key, figures)


def _scrolled(shown: Shown, key: str, closing: Sequence[str]) -> None:
    if key in closing:
        shown.help, shown.job, shown.scroll = False, None if not shown.help else shown.job, 0
    else:
        shown.scroll = max(0, shown.scroll + _steps(shown, key))


def _steps(shown: Shown, key: str) -> int:
    """Return how many lines a key goes down."""
    pages = {"pgup": -shown.page, "pgdn": shown.page, " ": shown.page, "home": -END, "g": -END, "end": END, "G": END}
    return STEPS.get(key) or pages.get(key, 0)


def _moved(shown: Shown, key: str, figures: Figures) -> None:
    rows = shown.rows(figures)
    place = shown.place(rows)
    if key == "esc":
        shown.filter = ""
    elif key == "enter" and rows:
        _entered(shown, rows[place])
    elif steps := _steps(shown, key):
        shown.choose(place + steps, rows)


def _entered(shown: Shown, row: Any) -> None:
    """Open the chosen row: the jobs of a queue, a job, or the newest job of a group."""
    if shown.view == "queues":
        shown.view, shown.filter = "jobs", f"queue:{row.queue.name}"
    elif shown.view == "failures":
        shown.job, shown.scroll = row.sample, 0
        shown.said = f"the newest of {row.jobs:,} of this group: fastq dead show {row.id}"
    elif shown.view == "processes":
        kinds = "any kind" if row.kinds is None else ", ".join(row.kinds) or "no kind"
        shown.said = f"supervisor {row.supervisor}, workers for {kinds}"
    else:
        shown.job, shown.scroll = row.id, 0


def _begin(shown: Shown, key: str, figures: Figures | None) -> None:
    """Ask the question of a deed."""
    if not shown.operate:
        shown.said = READ_ONLY
        return
    if figures is None:
        return
    if shown.job is not None:
        found = _of_one(key, figures)
    else:
        rows = shown.rows(figures)
        place = shown.place(rows)
        shown.choose(place, rows)
        found = deed_of(key, shown.view, rows[place]) if rows else f"{KEYS[key]}: nothing is chosen"
    if isinstance(found, str):
        shown.said = found
    else:
        shown.asked = found


def _of_one(key: str, figures: Figures) -> Deed | str:
    """Return the deed for the job that is shown alone."""
    detail = figures.job.detail if figures.job else None
    if detail is None:
        return f"{KEYS[key]}: there is no such job"
    if key in "rc":
        return retrying(detail) if key == "r" else cancelling(detail)
    return deed_of(key, "jobs", detail)
