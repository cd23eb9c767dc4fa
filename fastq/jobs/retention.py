"""Say how long finished jobs are kept: `FASTQ_KEEP`, rules by state, by queue or by both, over the general `FASTQ_ARCHIVE_DAYS`.

A value that never changes, made from text by Config (to refuse a mistake at the start, in the thread that makes it) and by the
chores that prune, each for itself, in their tracks' threads. `completed=1,discarded=30,emails=0.5,emails:completed=0.1`: days, of
a state, of a queue, of a queue's state.

The most specific rule holds: queue and state, then queue, then state, then the general one. A rule may keep longer than the
general one or shorter. A queue that is called like a state needs its states named (`completed:discarded=3`): alone, the word
means the state.

A day's partition is dropped when the longest rule is over (`whole_days`); `shares` names the rows to delete earlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from fastq.args.options import QUEUE, QUEUE_RULE
from fastq.errors import ConfigError

STATES = ("completed", "cancelled", "discarded")
"""The states of a finished job: those of `State`, which would bring all of a job along wherever a setting is read."""

MAX_DAYS = 3_650.0
"""As for FASTQ_ARCHIVE_DAYS."""

FORMAT = "STATE=DAYS, QUEUE=DAYS or QUEUE:STATE=DAYS, comma-separated, with 0 to 3650 days"


class Share(NamedTuple):
    """Finished jobs that are kept equally long: of a queue (None: of all but `others`), in some states."""

    queue: str | None
    others: tuple[str, ...]
    states: tuple[str, ...]
    days: float


@dataclass(frozen=True, slots=True)
class Retention:
    """The rules: days by queue (None: any) and state (None: any)."""

    rules: dict[tuple[str | None, str | None], float]

    @classmethod
    def parse(cls, text: str) -> Retention:
        """Read the rules; none in an empty text."""
        rules: dict[tuple[str | None, str | None], float] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, days = _parse(part)
            if key in rules:
                raise ConfigError(f"FASTQ_KEEP: '{part}' is said twice; one rule for each queue, state or queue:state")
            rules[key] = days
        return cls(rules)

    def days(self, queue: str, state: str, general: float) -> float:
        """Return how long a finished job is kept."""
        for key in ((queue, state), (queue, None), (None, state)):
            if key in self.rules:
                return self.rules[key]
        return general

    def whole_days(self, general: float) -> int:
        """Return after how many whole days no row of a day is kept any more, of any queue and state."""
        return math.ceil(max(share.days for share in self._all(general)))

    def shares(self, general: float) -> list[Share]:
        """Return the shares of a day's jobs that are deleted before its partition is dropped."""
        dropped = self.whole_days(general)
        return [share for share in self._all(general) if share.days < dropped]

    def _all(self, general: float) -> list[Share]:
        """Split all finished jobs into shares, no job in two of them."""
        queues = sorted({queue for queue, _ in self.rules if queue is not None})
        states: dict[tuple[str | None, tuple[str, ...], float], list[str]] = {}
        for state in STATES:
            ruled = tuple(queue for queue in queues if (queue, None) in self.rules or (queue, state) in self.rules)
            states.setdefault((None, ruled, self.rules.get((None, state), general)), []).append(state)
            for queue in ruled:
                states.setdefault((queue, (), self.days(queue, state, general)), []).append(state)
        return [Share(queue, others, tuple(names), days) for (queue, others, days), names in states.items()]


def _parse(part: str) -> tuple[tuple[str | None, str | None], float]:
    """Read one rule."""
    name, equals, number = (word.strip() for word in part.partition("="))
    queue, colon, state = name.partition(":")
    if not colon and name in STATES:
        queue, state = "", name
    try:
        days = float(number) if equals else math.nan
    except ValueError:
        days = math.nan
    named = (not colon and bool(state)) or QUEUE.fullmatch(queue) is not None
    if not named or (colon and state not in STATES) or not 0 <= days <= MAX_DAYS:
        raise ConfigError(f"FASTQ_KEEP: expected {FORMAT}, got '{part}'; states are {', '.join(STATES)}, a queue is {QUEUE_RULE}")
    return (queue or None, state or None), days
