"""The gates, keys and lines that the gatekeeper has in its memory: small, for there may be as many keys as there are accounts.

Used by the keeper (keeper.py, which has the rules), in the thread of the gatekeeper's track, in the supervisor that leads. The
keeper makes and forgets gates and lines, a gate its keys; all of them are written in that thread alone. Nearly all keys have one
line, and it has no other key. So a key is a line as well, the first one that has this key alone: one object instead of two. A
window is there while jobs wait, eight bytes for each place; the heap of a key comes with the second line that stands there. So a
key with one running job takes 364 bytes, 220 of them for the text of its gates, its name and its entries in two tables. Three
waiting jobs take 120 more.

The classes deliberately decide nothing but whether a key has room, and which line stands there first. A sort of gate with rules
of its own derives from Gate and Key, and stands in sorts.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fastq.args.gates import Entry
    from fastq.lead.gate.starts import Starts

AnyKey = TypeVar("AnyKey", bound="Key")

Numbers = tuple[int, float | None, int | None]
"""What an operator has set at a gate: how many at most; and of a rate the seconds and the burst, or None for the code's."""

Place = int
"""Priority and id of a job in one number: its place in a line. Eight bytes in a window; a pair of numbers would take 88."""

PRIORITY = 60
"""The bit of a place from which on it is the priority: with priorities up to 7 a place fits into eight bytes, and the ids that
fit below last for 36,000 years of a million jobs a second."""

START: Place = 0
"""Before every place."""


def place_of(priority: int, job: int) -> Place:
    """Return the place of a job."""
    return priority << PRIORITY | job


def priority_of(place: Place) -> int:
    """Return the priority of the job at a place."""
    return place >> PRIORITY


def job_of(place: Place) -> int:
    """Return the id of the job at a place."""
    return place & ((1 << PRIORITY) - 1)


class Gate(Generic[AnyKey]):
    """A gate that jobs go through, with its keys. Derived classes are other sorts of gates."""

    __slots__ = ("at_most", "default", "highest", "keys", "name", "paused", "said")

    def __init__(self, name: str) -> None:
        self.name = name
        self.default = 0  # the number in the code, as the line says that came last; none has 0
        self.said = ""  # that number for people, with all that belongs to it; none has come yet
        self.highest: int | None = None  # nobody can set more than that
        self.at_most = 0
        self.paused: Collection[str] = ()  # keys; an empty one stands for all
        self.keys: dict[str, AnyKey] = {}

    @classmethod
    def reads(cls, entry: Entry) -> bool:  # noqa: ARG003 - a rate asks
        """Tell whether the values that only this sort of gate has can be read."""
        return True

    def meet(self, starts: Starts) -> None:
        """Hear who knows the time and the jobs that have not started: no matter here."""

    def tell(self, entry: Entry) -> bool:
        """Hear how a line carries this gate; tell whether its number is another one now."""
        highest = None if entry.sort == "limit" else 1
        if (self.default, self.highest) == (entry.at_most, highest):
            return False
        self.default, self.highest = entry.at_most, highest
        self.said = f"{entry.at_most}"
        return True

    def key(self, entry: Entry) -> AnyKey:
        """Return the key that a line has here."""
        name = bytes(entry.key).decode()
        known = self.keys.get(name)
        if known is None:
            known = self.keys[name] = self.made(name)
        return known

    def made(self, name: str) -> AnyKey:
        """Make a key."""
        return cast("AnyKey", Key(self, name))

    def forget(self, key: AnyKey) -> None:
        """Forget a key that no line has."""
        del self.keys[key.key]

    def obey(self, values: Mapping[str, Numbers]) -> bool:
        """Take the number that an operator has set, or that in the code; tell whether it is another one."""
        before, number = self.at_most, values[self.name][0] if self.name in values else self.default
        self.at_most = number if self.highest is None else min(number, self.highest)
        return self.at_most != before


class Line:
    """The waiting jobs of one queue with the same gates and keys, as far as they are known here."""

    __slots__ = ("admitted", "after", "gates", "queue", "stands", "waiting", "weights", "window")

    def __init__(self) -> None:
        self.queue = self.gates = ""
        self.weights: tuple[int, ...] = ()  # of a job, at each of the keys
        self.admitted = 0  # jobs
        self.waiting: array[Place] | tuple[Place, ...] = ()  # the window; none is an empty tuple
        self.after: Place | None = None  # the window ends there, and jobs may wait behind it; None: it has all
        self.window = 0  # how many to read next time
        self.stands: Key | None = None

    def begin(self, queue: str, gates: str, weights: tuple[int, ...], window: int) -> None:
        """Become the line of this queue and these gates."""
        self.queue, self.gates, self.weights, self.window = queue, gates, weights, window

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of its jobs."""
        raise NotImplementedError

    def full(self) -> tuple[Key | None, int]:
        """Return a key that has no room for the first job, or where an older one stands; and the job's weight there."""
        for key, weight in zip(self.keys, self.weights, strict=True):
            if not key.has_room(weight) or key.passed_by(self):
                return key, weight
        return None, 0

    def waits(self) -> bool:
        """Tell whether it is known that jobs wait, in the window or behind it."""
        return bool(self.waiting) or self.after is not None

    def is_empty(self) -> bool:
        """Tell whether the window is to be read: it has no job, and there may be some behind it."""
        return not self.waiting and self.after is not None

    def insert(self, place: Place) -> int | None:
        """Take a place into the window; return at which position, or None if it is there."""
        if isinstance(self.waiting, tuple):
            self.waiting = array("q", (place,))
            return 0
        at = bisect_left(self.waiting, place)
        if at < len(self.waiting) and self.waiting[at] == place:
            return None
        self.waiting.insert(at, place)
        return at

    def extend(self, places: Sequence[Place]) -> None:
        """Take the places behind the window into it."""
        if places:
            self.waiting = array("q", [*self.waiting, *places])

    def cut(self, after: Place) -> None:
        """Forget the window behind a place."""
        self.after = after if self.after is None else min(self.after, after)
        if self.waiting:
            self.waiting = self.waiting[: bisect_right(self.waiting, after)] or ()
        if not self.waiting:
            self.stands = None

    def shift(self) -> None:
        """Take the first job out of the window."""
        if isinstance(self.waiting, tuple) or len(self.waiting) == 1:
            self.waiting = ()
        else:
            del self.waiting[0]

    def __lt__(self, other: object) -> bool:
        """Let a heap have two entries of one place: one of them is old."""
        return False


class OtherLine(Line):
    """A line that is no key: it has several keys, or its key is another line."""

    __slots__ = ("_keys",)

    def __init__(self, keys: tuple[Key, ...]) -> None:
        super().__init__()
        self._keys = keys

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of its jobs."""
        return self._keys


class Key(Line):
    """One key of one gate: a room of its own, and the lines that stand there because it is full. It is a line of its own, too."""

    __slots__ = ("gate", "key", "listed", "of", "standing", "taken")
    asks = False
    """Whether it matters here when a job starts."""

    def __init__(self, gate: Gate[Any], key: str) -> None:
        super().__init__()
        self.gate = gate
        self.key = key
        self.taken = 0  # the weight of the jobs that are admitted here
        self.of = 0  # lines that have this key
        self.standing: Line | list[tuple[Place, Line]] | None = None  # the only line, or a heap; some of it may be old
        self.listed = False  # among those to be looked at

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of its jobs as a line."""
        return (self,)

    def may_be(self, queue: str, gates: str) -> bool:
        """Tell whether it may be this line, which has no other key: not if it has been another one, which may be known yet."""
        return not self.gates or (self.gates == gates and self.queue == queue)

    def room(self) -> Room:
        """Return the room that jobs of this key take."""
        return self

    def has_room(self, weight: int) -> bool:
        """Tell whether a job of this weight may go: not while the key is paused; one heavier than all the room may go alone."""
        at_most = self.gate.at_most
        if self.gate.paused and self.is_paused():
            return False
        return self.taken + weight <= at_most or (self.taken == 0 and weight > at_most > 0)

    def is_paused(self) -> bool:
        """Tell whether an operator has paused this key, or all of the gate."""
        return self.key in self.gate.paused or "" in self.gate.paused

    def resume(self) -> None:
        """Hear that pauses have changed. The room is looked at next, and that is all that a key needs."""

    def take(self, weight: int) -> None:
        """Count a job that is let go."""
        self.taken += weight

    def give(self, weight: int) -> None:
        """Count jobs no longer that have left; with a weight below 0, count some that were let go before."""
        self.taken -= weight

    def stayed(self, line: Line, weight: int) -> None:  # noqa: ARG002 - a tenant asks
        """Count a job no longer that was to be let go, and has stayed."""
        self.taken -= weight

    def await_room(self, weight: int) -> None:
        """Hear that a job of this weight stands here. A job that leaves makes room: there is nothing to wait for by the clock."""

    def drops(self) -> bool:
        """Tell whether a job that finds no room here is dropped."""
        return False

    def goes_yet(self, weight: int) -> None:
        """Hear that a job was let go in another term and has not started: it was counted with those that were found."""

    def started(self, weight: int, at: float) -> None:
        """Hear when a job has started, which makes no room here."""

    def spend(self, weight: int, until: float) -> None:
        """Hear of starts beside the jobs: no matter here."""

    def unused(self) -> bool:
        """Tell whether the key may be forgotten when no line has it."""
        return True

    def put(self, line: Line) -> None:
        """Have a line stand here with its first job."""
        line.stands = self
        if not isinstance(self.standing, list):
            other = self.first()
            if other is None or other is line:
                self.standing = line
                return
            self.standing = [(other.waiting[0], other)]
        heappush(self.standing, (line.waiting[0], line))

    def first(self) -> Line | None:
        """Return the line that stands here with the oldest job."""
        while isinstance(self.standing, list):
            place, line = self.standing[0]
            if line.stands is self and line.waiting[0] == place:
                return line
            self.drop()  # the line has gone on, or another job is its first now, with an entry of its own
        if self.standing is not None and self.standing.stands is not self:
            self.standing = None
        return self.standing

    def passed_by(self, line: Line) -> bool:
        """Tell whether the first job of a line would pass an older one that stands here."""
        other = self.first()
        return other is not None and other.waiting[0] < line.waiting[0]

    def go_on(self, line: Line) -> None:
        """Have the first line stand here with its next job."""
        if isinstance(self.standing, list):
            heapreplace(self.standing, (line.waiting[0], line))

    def drop(self) -> None:
        """Have the first line stand here no longer."""
        if isinstance(self.standing, list) and len(self.standing) > 1:
            heappop(self.standing)
        else:
            self.standing = None

    def run_out(self, line: Line) -> None:  # noqa: ARG002 - a tenant waits for it
        """Have the first line stand here no longer, for its window is empty."""
        self.drop()


class Room(Protocol):
    """What the keeper looks at: the lines that stand there go while there is room. It is a key, unless keys share one."""

    listed: bool

    @property
    def standing(self) -> object:
        """What stands there, some of which may be old; None or empty: nothing."""

    def first(self) -> Line | None:
        """Return the line that is next."""
