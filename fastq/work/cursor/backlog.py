"""The backlog of a queue: whether a look has left jobs to claim, and how processes take them in parts. A part of the cursor.

    drained     the last look found less than it had room for, and no notification has come since it began
    woken       the same, and one has come: a look is called for
    backlog     the last look took all that it had room for
    in parts    the same, and numbers beyond the frontier are known to be given out: parts of them can be taken

While there is backlog, the turn is short: the process that has it takes the next part, as many numbers as it wants jobs, moves
the frontier to the part's end and lets the next process in; the claims of the parts run side by side and do not meet a row of
each other's. If a stretched part holds more jobs than were wanted, the frontier is set back to the last job taken, and may then
overlap a part that another process took meanwhile; the row locks sort that out.

For safety: a part never reaches beyond the highest number given out, so nothing that is still to come can fall behind the
frontier; numbers within it that are not committed yet are late commits like any other. For promptness alone: the setting back
of the frontier, and that parts are stretched where the numbers are thin. Without these, jobs wait for the re-scan.

Run by the producer's thread: in the turn, but for `claimed`. It deliberately sends nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from fastq.board.cursor_words import PRIORITIES, raise_to
from fastq.work.cursor.claims import Part

if TYPE_CHECKING:
    from fastq.board.cursor_words import CursorWords
    from fastq.work.codec.claimed import Claimed

END = [2**62] * PRIORITIES
"""Above every seq, by priority."""

MAX_STRETCH = 1_024
"""Numbers per wanted job in a part, at most: thinner than that, a claim from the frontier finds them as quickly."""


class State(Enum):
    """The states of the backlog."""

    DRAINED = "drained"
    WOKEN = "woken"
    BACKLOG = "backlog"
    IN_PARTS = "in parts"


_BACKLOG = (State.BACKLOG, State.IN_PARTS)
_NONE = (State.DRAINED, State.WOKEN)
ARROWS = {
    (State.DRAINED, "more"): _BACKLOG,  # a look at the poll, or for a wake-up of another process that has drained it meanwhile
    (State.WOKEN, "more"): _BACKLOG,
    (State.BACKLOG, "more"): (State.BACKLOG,),
    (State.IN_PARTS, "more"): (State.IN_PARTS,),
    (State.DRAINED, "drain"): (State.DRAINED,),
    (State.WOKEN, "drain"): _NONE,  # woken still: by a notification that came during the look
    (State.BACKLOG, "drain"): _NONE,
    (State.IN_PARTS, "drain"): _NONE,
    (State.BACKLOG, "lead_to"): _BACKLOG,  # the highest number given out has been read
    (State.IN_PARTS, "lead_to"): (State.IN_PARTS,),
    (State.BACKLOG, "take"): (State.BACKLOG,),  # no part: it would reach beyond the numbers given out
    (State.IN_PARTS, "take"): _BACKLOG,
}
"""From a state, by an event (a method of `Backlog`) in the turn, to states. A notification leads from drained to woken alone."""


class Backlog:
    """The backlog of one queue; the words are the cursor's."""

    def __init__(self, words: CursorWords) -> None:
        self._words = words

    @property
    def state(self) -> State:
        """Tell the state of the backlog."""
        words = self._words
        if not words.backlog:
            return State.DRAINED if words.drained == words.wakes else State.WOKEN
        return State.IN_PARTS if words.frontier[words.part_at] < words.top else State.BACKLOG

    def more(self) -> None:
        """Note that a look took all that it had room for."""
        self._words.backlog = 1

    def drain(self, wakes: int) -> None:
        """Note that a look found less; `wakes` as of its start: a notification during the look calls for another."""
        words = self._words
        words.backlog, words.drained = 0, wakes

    def is_at(self, priority: int, limit: int) -> bool:
        """Note which priority has the backlog; tell whether the highest number must be read before a part can be taken of it."""
        words = self._words
        words.part_at = priority - 1
        return words.frontier[priority - 1] + limit > words.top

    def lead_to(self, top: int) -> None:
        """Note the highest number that was ever given out."""
        self._words.top = top

    def take(self, limit: int, now: int) -> Part | None:
        """Take the next part, and leave its claim for after the turn; None beyond the numbers that are known to be given out."""
        words = self._words
        at, after = words.part_at, words.frontier.tolist()
        end = after[at] + limit * max(1, words.stretch)
        if end > words.top:
            return None
        words.frontier[at], words.looked_at = end, now
        return Part(at, after, [*END[:at], end, *after[at + 1 :]], limit)

    def claimed(self, part: Part, claimed: Claimed) -> int | None:
        """Take in the jobs of a part, without the turn; return the last number taken if more are in the part, else None."""
        words, last = self._words, claimed.last_seqs()
        raise_to(words.frontier, {priority: seq for priority, seq in last.items() if priority <= part.at})
        reached = last.get(part.at + 1, part.after[part.at])
        if claimed.full and reached < part.upto[part.at]:
            words.stretch = words.stretch // 2
            return reached
        if part.brought_little(claimed):
            words.stretch = min(max(1, words.stretch) * 2, MAX_STRETCH)
        return None

    def set_back(self, part: Part, reached: int) -> None:
        """Set the frontier back to the last job taken, never below the low-water mark: nothing is left up to there."""
        words, at = self._words, part.at
        words.frontier[at] = max(words.low[at], min(words.frontier[at], reached))
