"""What a change of keys does to the rows of a window: which args it encrypts anew, and what the numbers say of the others.

Runs in the caller's thread or event loop, for each table in the same way (rotation.py, archived.py); a `Rotated` belongs to one
change. It keeps nothing, and sends no statement.

Invariant: a row that only the newest key has encrypted is not written. A row that does not open stays as it is, and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from fastq.args.secret.envelopes import keys_in, resealed
from fastq.errors import ArgsError
from fastq.texts import in_ascii

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

P = TypeVar("P")

WINDOW = 500
"""Rows read by a statement: the figure of admin/deploys/misfits.py, for the same reason."""

RECORD = "\x1e"
"""The character that joins the elements of a list; JSON has no raw control character."""


@dataclass(slots=True)
class Rotated:
    """The numbers of a change of keys.

    The older keys are needed no longer once a change that looked at the archive, too, has found none of them: `remaining` is
    empty, and nothing was encrypted anew.
    """

    kind: str
    key: str  # the newest, with which they are encrypted now
    jobs: int = 0  # that live, and were encrypted anew
    left: int = 0  # that ran, or were changed meanwhile, and have another key
    unreadable: int = 0  # that this program's keys do not open
    sample: int | None = None  # the id of the first of these
    reason: str = ""  # why that one does not open
    archived: int | None = None  # rows of finished jobs that were encrypted anew; None: they were not looked at
    dead: int | None = None  # the same, of discarded jobs as they wait for a replay
    remaining: dict[str, int] = field(default_factory=dict)  # rows that were looked at and have another key, by its name

    def keep(self, args: Any) -> bool:
        """Count a row that stays as it is under its other keys; tell whether it has any."""
        others = keys_in(args) - {self.key}
        for key in sorted(others):
            self.remaining[key] = self.remaining.get(key, 0) + 1
        return bool(others)


class Anew(NamedTuple, Generic[P]):
    """A row that is to be written: where it is, the digest of its args, the text of its new args, and the args as they are."""

    place: P
    was: str
    text: str
    args: Any


def anew(told: Rotated, rows: Iterable[tuple[P, str, Any, int]]) -> list[Anew[P]]:
    """Return the rows that are to be written; count those that do not open. A row: place, digest, args, the id of its job."""
    changed = []
    for place, was, args, job in rows:
        try:
            new = resealed(args, told.kind)
        except ArgsError as error:
            if told.sample is None:
                told.sample, told.reason = job, error.reason
            told.unreadable += 1
            told.keep(args)
            continue
        if new is not args:
            changed.append(Anew(place, was, in_ascii(msgspec.json.encode(new).decode()), args))
    return changed


def lists(changed: Sequence[Anew[Any]]) -> tuple[str, str, str]:
    """Return the three lists that a statement takes: places, digests, args."""
    places, was, texts, _ = zip(*changed, strict=True)
    return RECORD.join(map(str, places)), RECORD.join(was), RECORD.join(texts)


def count_written(told: Rotated, changed: Sequence[Anew[Any]], written: str) -> int:
    """Count the rows that were written, and those that were not, as somebody changed them meanwhile; return how many were."""
    done = set(written.split(RECORD)) if written else set()
    for row in changed:
        if str(row.place) not in done:
            told.left += 1
            told.keep(row.args)
    return len(done)
