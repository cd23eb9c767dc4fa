"""How many rows are tried at once, and which of them are passed over for a while: a `Size` and an `Aside`.

Plain values without I/O, for code that reads or writes many rows with one statement:

    Size     the claims of a queue (demand.py), the looks for forgotten jobs (forgotten.py), the completer, the leader's chores
    Aside    the claims of a queue, the leader's chores

Each object belongs to one thread, which alone calls it: the producer's, the completer's, that of a chore's track. Its module
decides how many rows are too many, which events report it, and how long a row is passed over.

They deliberately emit no event and know no database: whether an error is the fault of one row is asked in postgres/sqlstate.py.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

Key = TypeVar("Key")


class Size:
    """A size that is halved when so many were too many, and doubled again while it goes well.

    It grows after `successes` of its own size in a row, and at most once in `rest` seconds, also after it has shrunk.
    """

    def __init__(self, largest: int, smallest: int = 1, *, successes: int = 1, rest: float = 0.0) -> None:
        self.now = largest
        self.whole = True  # nothing was too much lately
        self._largest = largest
        self._smallest = smallest
        self._successes = successes
        self._rest = rest
        self._good = 0  # successes since it last changed
        self._grow_at = 0.0  # monotonic time before which it does not grow

    def shrink(self, tried: int) -> None:
        """Take half of the number that was tried."""
        self.now = max(self._smallest, min(tried, self.now) // 2)
        self._changed()

    def succeeded(self, tried: int) -> bool:
        """Grow if it is time to, and tell whether the size is whole again by this; less than half a size shows nothing."""
        if self.whole or 2 * tried < self.now:
            return False
        self._good += 1
        if self._good < self._successes or (self._rest and time.monotonic() < self._grow_at):
            return False
        self.now = min(2 * self.now, self._largest)
        self._changed()
        return self.whole

    def _changed(self) -> None:
        self._good = 0
        self.whole = self.now == self._largest
        if self._rest:
            self._grow_at = time.monotonic() + self._rest


class Aside(Generic[Key]):
    """Keys that are passed over for a while; no more than `most` at a time, if that is given."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._until: dict[Key, float] = {}  # monotonic time of the next try, by key

    def __len__(self) -> int:
        """Count the keys, those included that have become due since `keys` was last called."""
        return len(self._until)

    def keys(self) -> list[Key]:
        """Return the keys that are passed over now, and forget the others."""
        if self._until:
            now = time.monotonic()
            self._until = {key: until for key, until in self._until.items() if until > now}
        return list(self._until)

    def put(self, keys: Collection[Key], seconds: float) -> int:
        """Set keys aside for so long, the first ones if there is no room for all; return for how many there was room."""
        room = len(keys)
        if self._most is not None and len(self._until) + room > self._most:
            room = min(room, max(0, self._most - len(self.keys())))
        self._until.update(dict.fromkeys(islice(keys, room), time.monotonic() + seconds))
        return room

    def wait(self) -> float | None:
        """Return the seconds until the next try of any key; None if no key is aside."""
        return max(0.0, min(self._until.values()) - time.monotonic()) if self._until else None
