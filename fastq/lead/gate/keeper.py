"""Decide which waiting jobs may go: the gatekeeper's memory and its rules, without database, thread or clock.

Owned and used by one chore (gatekeeper.py), in its thread of the leading supervisor; by a simulation (tests/simulation/gate),
too. It hears events, says which jobs to let go, and hears which of them have gone.

    gate    a name with a number: at most so many jobs at once
    key     a key at a gate, such as an account: it has room until so many jobs (by weight) are admitted there
    room    what the jobs of a key take: the key's own, or at a fair gate (rounds.py) one that its keys share
    line    the jobs of one queue with the same gates and keys; they are let go in the order of priority and id

A job goes when each of its keys has room. If the first job of a line finds none at one of its keys, the line stands at that key,
and is looked at again when a job has left there. Of the lines that stand at one key that with the oldest first job comes first,
after priority. A heavy job that does not fit holds up those behind it at that key, or it would wait for ever.

A line keeps a window: the first of its waiting jobs, all up to the place `after`. A million waiting jobs of one key are a
million rows in the database and a few hundred numbers here. A job that comes to wait before that place is told by an event; the
jobs behind it are found when the window is empty.

Invariants: a key never has more admitted than its number, unless that was lowered meanwhile or one job alone is heavier; each
waiting job up to `after` is in the window, or its event has not been read yet; lines and keys without jobs are forgotten. Events
may be old or come twice, but for the number of jobs that have left: a job that waits no more is let go in vain, which is heard.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from fastq.lead.gate.keys import START, Key, Line, OtherLine, job_of
from fastq.lead.gate.sorts import SORTS, entries_in
from fastq.lead.gate.starts import Starts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fastq.args.gates import Entry
    from fastq.lead.gate.keys import Gate, Numbers, Place, Room

FIRST_WINDOW, LARGEST_WINDOW = 16, 512
"""Jobs that are read of a line at first, and at most: doubled each time that a window is empty. A guess: the largest is 4 kB,
and lasts a limit of 20 for some milliseconds."""

WEIGHTS = {weights: weights for weights in ((1,) * gates for gates in range(1, 9))}
"""The weights of most lines, once for all of them."""


class Keeper:
    """All keys and lines that have jobs, admitted or waiting."""

    def __init__(self, values: Mapping[str, Numbers], now: float = 0.0) -> None:
        self.lines: dict[str, dict[str, Line]] = {}  # by queue and gates
        self.gates: dict[tuple[str, type[Gate[Any]]], Gate[Any]] = {}
        self.starts = Starts(now)
        self.dropped: list[tuple[Place, Line]] = []  # jobs that found no room where such jobs are dropped: the chore ends them
        self.unreadable: list[tuple[str, str]] = []  # new lines with gates that nobody can read: the chore takes and reports them
        self.differing: dict[tuple[str, str], str] = {}  # a gate and its number in a new line, by the one before: as above
        self.knows_lines = False  # written by the chore, once all lines with waiting jobs have been told: any may have older ones
        self._values = values
        self._paused: Mapping[str, Collection[str]] = {}
        self._look_at: deque[Room] = deque()
        self._empty: dict[Line, None] = {}  # lines, each with a window that is to be read

    def counts(self, queue: str, gates: str, jobs: int) -> None:
        """Hear that so many jobs of a line are admitted."""
        self._give_back(self._line(queue, gates), -jobs)

    def goes_yet(self, queue: str, gates: str, job: int) -> None:
        """Hear that an admitted job has not started."""
        line = self._line(queue, gates)
        for key, weight in zip(line.keys, line.weights, strict=True):
            key.goes_yet(weight)
        self.starts.went(job, line)

    def tick(self, now: float) -> None:
        """Hear the time."""
        for key in self.starts.passed(now):
            self._list(key)
        for gone in self.starts.forgotten():
            self._forget_key(gone)

    def started(self, asked: Iterable[int], ages: Mapping[int, float]) -> None:
        """Hear which of the jobs that were asked for have started, and how many seconds ago."""
        for key in self.starts.answered(asked, ages):
            self._list(key)

    def spent(self, queue: str, gates: str, seconds: float, *, weighs: bool) -> None:
        """Hear that nothing of a line may start for so long; and that something of its weight did start, beside the jobs."""
        line = self._line(queue, gates)
        for key, weight in zip(line.keys, line.weights, strict=True):
            key.spend(weight if weighs else 0, self.starts.now + seconds)
        self._forget(line)

    def freed(self, queue: str, gates: str, jobs: int) -> None:
        """Hear that so many admitted jobs of a line have left."""
        line = self._line(queue, gates)
        self._give_back(line, jobs)
        self._forget(line)

    def came(self, queue: str, gates: str, jobs: int, place: Place) -> None:
        """Hear that so many jobs of a line have come to wait, the first of them at this place."""
        line = self._line(queue, gates)
        if line.after is not None and place > line.after:
            return  # reading will find them
        if not (self.knows_lines or line.waits()):
            self._read_from(line, START)
            return
        if jobs > 1:
            self._read_from(line, place - 1)  # from there and not from the start: that would pass all that have gone
            return
        at = line.insert(place)
        if len(line.waiting) > 2 * LARGEST_WINDOW:
            self._read_from(line, line.waiting[LARGEST_WINDOW - 1])
        if at == 0:
            self._stand(line)

    def knows(self, queue: str, gates: str) -> bool:
        """Tell whether it is known here that jobs of a line wait."""
        line = self.lines.get(queue, {}).get(gates)
        return line is not None and line.waits()

    def waits(self, queue: str, gates: str) -> None:
        """Hear that jobs of a line wait."""
        if not self.knows(queue, gates):
            self._read_from(self._line(queue, gates), START)

    def empty(self, most: int) -> list[Line]:
        """Return some of the lines with a window that is to be read."""
        found = [line for line in self._empty if line.is_empty()]
        self._empty = dict.fromkeys(found[most:])
        return found[:most]

    def read(self, line: Line, places: Sequence[Place], asked: int) -> None:
        """Hear which jobs wait in a line behind its window; fewer than were asked for are all."""
        line.extend(places)
        line.after = places[-1] if len(places) >= asked else None
        line.window = min(2 * line.window, LARGEST_WINDOW)
        self._stand(line)
        if not line.waiting:
            for key in line.keys:
                self._list(key)  # a tenant may have kept its turn for the jobs that were to be read
        self._forget(line)

    def values(self, values: Mapping[str, Numbers]) -> None:
        """Hear the numbers that operators have set, by gate."""
        self._values = values
        for gate in self.gates.values():
            self._set(gate)

    def pauses(self, paused: Mapping[str, Collection[str]]) -> None:
        """Hear which keys are paused, by gate; an empty key stands for all of a gate."""
        self._paused = paused
        for gate in self.gates.values():
            before, gate.paused = gate.paused, paused.get(gate.name, ())
            for key in gate.keys.values() if before != gate.paused else ():
                key.resume()
                self._list(key)

    def choose(self, most: int) -> list[tuple[Place, Line]]:
        """Return jobs to let go, with their lines; they count as admitted from now on."""
        chosen: list[tuple[Place, Line]] = []
        while self._look_at and len(chosen) + len(self.dropped) < most:
            room = self._look_at.popleft()
            room.listed = False
            self._choose_at(room, chosen, most)
        return chosen

    def stayed(self, line: Line, place: Place, locked: bool) -> None:
        """Hear that a chosen job has not gone: it waits no more; or it does, and its row was locked."""
        line.admitted -= 1
        for key, weight in zip(line.keys, line.weights, strict=True):
            key.stayed(line, weight)
            self._list(key)
        self.starts.unstarted.pop(job_of(place), None)
        if locked:
            self.aside(line, place)
        self._forget(line)

    def aside(self, line: Line, place: Place) -> None:
        """Hear that the job at this place still waits, and its row was locked.

        No job behind it goes before it: the line is read anew from there, when `again` is called.
        """
        line.cut(place - 1)
        self._empty.pop(line, None)

    def dropped_from(self, lines: Iterable[Line]) -> None:
        """Hear that the jobs were ended that found no room: some of their lines may have none left."""
        for line in lines:
            self._forget(line)

    def again(self, queue: str, gates: str) -> None:
        """Hear that it is time to try the jobs of a line again of which the first was locked."""
        line = self.lines.get(queue, {}).get(gates)
        if line is not None:
            self._empty[line] = None

    def every_line(self) -> Iterator[Line]:
        """Give all lines."""
        for lines in self.lines.values():
            yield from lines.values()

    def _choose_at(self, room: Room, chosen: list[tuple[Place, Line]], most: int) -> None:
        while (line := room.first()) is not None and line.stands is not None:
            at = line.stands
            if len(chosen) + len(self.dropped) >= most:
                self._list(at)
                return
            full, weight = line.full()
            if full is None:
                chosen.append((line.waiting[0], line))
                self._take(line)
                self._go_on(line, at)
            elif full.drops() and not full.has_room(weight):
                self.dropped.append((line.waiting[0], line))
                self._go_on(line, at)
            else:
                full.await_room(weight)
                if full is at:
                    return
                at.drop()
                full.put(line)

    def _take(self, line: Line) -> None:
        """Count the first job of a line as admitted."""
        job, asks = job_of(line.waiting[0]), False
        if job in self.starts.unstarted:  # it was let go before, has started meanwhile, and waits for its next attempt
            self.started([job], {job: 0.0})
        line.admitted += 1
        for key, weight in zip(line.keys, line.weights, strict=True):
            key.take(weight)
            asks = asks or key.asks
        if asks:
            self.starts.went(job, line)

    def _go_on(self, line: Line, at: Key) -> None:
        """Have a line stand where it stood, with its next job."""
        line.shift()
        if line.waiting:
            at.go_on(line)
            return
        line.stands = None
        if line.after is not None:
            self._empty[line] = None
            at.run_out(line)
        else:
            at.drop()

    def _give_back(self, line: Line, jobs: int) -> None:
        line.admitted -= jobs
        for key, weight in zip(line.keys, line.weights, strict=True):
            key.give(jobs * weight)
            self._list(key)

    def _read_from(self, line: Line, after: Place) -> None:
        """Forget the window behind a place, and have it read from there on."""
        line.cut(after)
        if not line.waiting:
            self._empty[line] = None

    def _stand(self, line: Line) -> None:
        """Have a line stand somewhere with its first job, and have that key looked at."""
        if line.waiting:
            key = line.stands or line.keys[0]
            key.put(line)
            self._list(key)

    def _list(self, key: Key) -> None:
        """Have the room of a key looked at, if a line stands there."""
        room = key.room()
        if room.standing and not room.listed:
            room.listed = True
            self._look_at.append(room)

    def _line(self, queue: str, gates: str) -> Line:
        lines = self.lines.get(queue)
        if lines is None:
            lines = self.lines[queue] = {}
        line = lines.get(gates)
        if line is None:
            entries, readable = entries_in(gates)
            if not readable:
                self.unreadable.append((queue, gates))
            keys = tuple([self._gate(entry).key(entry) for entry in entries])
            for key in keys:
                key.of += 1
            weights = tuple([entry.weight for entry in entries])
            line = lines[gates] = keys[0] if len(keys) == 1 and keys[0].may_be(queue, gates) else OtherLine(keys)
            line.begin(sys.intern(queue), gates, WEIGHTS.get(weights, weights), FIRST_WINDOW)
        return line

    def _gate(self, entry: Entry) -> Gate[Any]:
        sort = SORTS[entry.sort]
        gate = self.gates.get((entry.name, sort))
        if gate is None:
            gate = self.gates[entry.name, sort] = sort(entry.name)
            gate.meet(self.starts)
            gate.paused = self._paused.get(entry.name, ())
        before = gate.said
        if gate.tell(entry):
            if before not in ("", gate.said):
                self.differing[gate.name, gate.said] = before
            self._set(gate)
        return gate

    def _set(self, gate: Gate[Any]) -> None:
        """Have a gate obey its number, and look where that may make room."""
        if gate.obey(self._values):
            for key in gate.keys.values():
                self._list(key)

    def _forget(self, line: Line) -> None:
        lines = self.lines.get(line.queue, {})
        if lines.get(line.gates) is not line or line.admitted or line.waits():
            return
        del lines[line.gates]
        if not lines:
            del self.lines[line.queue]
        for key in line.keys:
            key.of -= 1
            if not key.of:
                self._forget_key(key)

    def _forget_key(self, key: Key) -> None:
        key.gate.forget(key)
        if not key.gate.keys:
            del self.gates[key.gate.name, type(key.gate)]


def differences(keeper: Keeper, counted: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, int, int]]:
    """Return the lines in which the keeper counts otherwise than the database: queue, gates, its number, that of the database."""
    found = {(queue, gates): jobs for queue, gates, jobs in counted}
    known = {(line.queue, line.gates): line.admitted for line in keeper.every_line() if line.admitted}
    names: Any = found.keys() | known.keys()
    return [(*name, known.get(name, 0), found.get(name, 0)) for name in sorted(names) if known.get(name, 0) != found.get(name, 0)]
