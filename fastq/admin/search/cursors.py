"""Hold the place at which a page ends, and write it as a cursor: a text that a caller hands back for the next page.

Plain values; the thread or event loop that asks for a page makes them. A cursor is opaque to the caller, and is checked when it
comes back: it goes on with the filter that it was made for. It has no secret: whoever has one may read what it says.

Invariant: a place tells by ids and times up to where all jobs were looked at. So jobs that come, end or go between two pages
change neither place nor order of the others. It deliberately has no row of the page in it, and nothing in the database remembers
it.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from fastq.args.faults import show
from fastq.errors import OptionError

if TYPE_CHECKING:
    from fastq.admin.search.job_filter import JobFilter

ALL, LIVING, ENDED, CHOSEN = "all", "living", "ended", "chosen"
"""The legs of a walk: living and finished jobs together, by their ids; living ones by their ids; finished ones by their ends;
those that another index has told."""

LONGEST = 1_000
"""Characters of a cursor: ours have some 150."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far a walk has come. It is never changed; `moved` makes the next one."""

    leg: str
    id: int
    """All jobs of this leg with a larger id were looked at; of finished ones, those that ended at `at` itself."""
    at: datetime | None
    """All finished jobs that ended later were looked at. None: the leg of the finished jobs has not begun."""
    top: int
    """The largest id that the leg of the finished jobs looks at."""
    now: datetime
    """The time to which spans of the filter refer."""

    def moved(self, **changes: object) -> Place:
        """Return a place further on."""
        return replace(self, **changes)  # type: ignore[arg-type]


def written(place: Place, wanted: JobFilter) -> str:
    """Write a place as a cursor."""
    told = (wanted.digest, place.leg, place.id, place.at, place.top, place.now)
    return base64.urlsafe_b64encode(msgspec.json.encode(told)).decode().rstrip("=")


def read(cursor: object, wanted: JobFilter) -> Place:
    """Read a cursor; OptionError for one that is none, or that belongs to another filter."""
    if not isinstance(cursor, str) or len(cursor) > LONGEST:
        raise OptionError(f"after {show(cursor)}: expected the cursor of a page, as `page.after` has it")
    try:
        decoded = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        digest, leg, number, at, top, now = msgspec.json.decode(
            decoded, type=tuple[str, str, int, datetime | None, int, datetime]
        )
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise OptionError(f"after {show(cursor)}: expected the cursor of a page, as `page.after` has it") from None
    if digest != wanted.digest:
        raise OptionError(f"after {show(cursor)}: expected the cursor of a page of the same filter, got that of another one")
    if leg not in (ALL, LIVING, ENDED, CHOSEN):
        raise OptionError(f"after {show(cursor)}: expected a cursor of this version of fastq: begin again without one")
    return Place(leg, number, at, top, now)
