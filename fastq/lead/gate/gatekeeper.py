"""Gate: let jobs go that wait at gates, when there is room. A chore of the schema's leader, in a track with pauses and workflows.

Run in its track's thread of the supervisor that leads; the keeper and all that belongs to it are this thread's alone. It is told
by a log (gate_log.py) that the statements append to which make jobs wait at gates, or end them; it decides in memory (keeper.py);
and it lets jobs go by giving them a seq, many in one statement, fenced by its term like every chore. It is woken by the hint
'@gate' and does not poll.

Its memory is thrown away with the term, whenever a statement failed, and with the session: a server that has crashed may have
forgotten what was done last (sql/gate_admit.sql). The next run begins with the tables. Each job that was let go has a row in
gate_permit until it leaves, so two leaders in a row never let too many go. While nobody leads, jobs that go through gates wait,
and all others run.

Invariant: a job waits for nobody's memory: its row says at which gates. A comparison of the memory with the tables, now and then,
finds a difference, repairs it, and reports it as the bug that it is. The chore deliberately decides nothing by itself.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from fastq.events import emit
from fastq.lead.gate.gate_log import Log
from fastq.lead.gate.holds import Holds
from fastq.lead.gate.keeper import Keeper, differences
from fastq.lead.gate.keys import job_of, place_of
from fastq.lead.gate.reading import Lines, Windows
from fastq.postgres import db, hints, sqlstate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastq.lead.gate.keys import Line, Place
    from fastq.lead.term.chore import Site

BATCH = 2_000
"""Jobs let go by one statement: the figure of promote, for the same reason."""

COMPARE = 30.0
"""Seconds between two comparisons of the memory with the tables."""

SOON = 1.0
"""The same after one that has removed permits: a program older than gates ends our jobs, and each leaves its permit behind."""

VALUES = 0.1
"""Seconds between two looks at the numbers that operators have set, at least: a person's change wakes the chore and holds a tenth
of a second later, and a chore that lets go a thousand batches a second reads that small table ten times."""

REST = 30.0
"""Times the length of a comparison that no other follows it: a thirtieth of the thread's time."""

IDLE = 10.0
"""Seconds until the next run when nothing is known to be due: with a lost hint a job waits so long. The figure of promote."""

IDLE_POLLING = 0.1
"""The same without LISTEN. A guess: a statement each tenth of a second."""

TOLD = 1_000
"""Numbers of gates that are told of in a term because they differ: a guess. A program that makes up a number for each job would
fill the log."""

LOCKED = 0.2
"""Seconds until a job is tried again after its row was locked, by a transaction that cancels it, say."""

_counted = msgspec.json.Decoder(list[tuple[str, str, int]]).decode


@contextmanager
def put_off() -> Iterator[None]:
    """Go on where a statement ran into its time limit, as under an old snapshot: it has changed nothing, and is tried again.

    Else the memory would be thrown away, and to make it anew all lines are read from their beginnings, which takes far longer.
    """
    try:
        yield
    except db.Error as error:
        if not sqlstate.too_slow(error):
            raise


class Gatekeeper:
    """The chore. Its attributes and the keeper are its own, in its track's thread; a new term makes a new one."""

    name = "gate"

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or time.monotonic  # seconds on a clock that never goes back
        self._keeper: Keeper | None = None  # None: to be made of the tables
        self._session: object = None  # of which the memory is; another chore of the track may have found out that it was lost
        self._log = Log()
        self._lines = Lines()
        self._windows = Windows()
        self._holds = Holds()
        self._compare_at = 0.0  # monotonic
        self._values_at = 0.0  # monotonic; from when on the numbers of operators may be read again
        self._values_old = False  # a hint has come since they were read: it may have been for them
        self._locked: dict[tuple[str, str], float] = {}  # lines with a locked first job, and when to try it again; in this order
        self._told: set[tuple[str, str]] = set()  # gates and their numbers, each told of as another one than that before it
        self._unheard: set[tuple[str, str]] = set()  # lines that a comparison has found: the log should tell of them yet
        self._taken = 0.0  # seconds that the present comparison has taken
        self._least = COMPARE  # seconds from its end to the next one, at least

    def start(self, site: Site) -> None:
        """Need nothing: the first run reads the tables, and if that takes long it holds up no other chore's start."""

    def run(self, site: Site) -> float:
        """Read the events, let jobs go that may."""
        # A hint may be lost: then the numbers are read within IDLE.
        self._values_old |= site.config.poll_only or site.woken or self._now() >= self._values_at + IDLE
        if self._session is not site.connection:
            self._keeper, self._session = None, site.connection
        try:
            return self._run(site)
        except BaseException:
            self._keeper = None  # a statement may have done its work or not: only the tables know
            raise

    def end(self, site: Site, reason: str) -> None:
        """Leave nothing: the next leader reads the tables."""

    def _run(self, site: Site) -> float:
        keeper = self._keeper or self._begin(site)
        keeper.tick(self._now())
        more = self._hear(site, keeper)
        self._read_values(site, keeper)
        self._list_lines(site, keeper)
        self._report(keeper)
        self._try_locked(keeper)
        self._ask_starts(site, keeper)
        empty = self._windows.read(site, keeper)
        keeper.tick(self._now())
        chosen = keeper.choose(BATCH)
        self._record_debts(site, keeper)
        if chosen:
            self._let_go(site, keeper, chosen)
        dropped, keeper.dropped = keeper.dropped, []
        if dropped:
            self._drop(site, keeper, dropped)
        if more or chosen or dropped or empty or self._lines.left:
            return 0.0
        if self._now() >= self._compare_at:
            self._compare(site, keeper)
            return 0.0
        return self._idle(site, keeper)

    def _hear(self, site: Site, keeper: Keeper) -> bool:
        """Tell the keeper what the log says; return whether there may be more of it now."""
        events, more = self._log.read(site)
        keeper.tick(self._now())  # the events tell seconds from now
        for queue, gates, jobs, priority, job, seconds in events:
            if seconds is not None:  # a start beside the jobs, or jobs that wait again since the rate was exceeded
                keeper.spent(queue, gates, seconds, weighs=job is None)
            if priority is not None and job is not None:
                keeper.came(queue, gates, jobs, place_of(priority, job))
                self._unheard.discard((queue, gates))
            if job is None or seconds is not None:
                keeper.freed(queue, gates, jobs)
        if self._log.whole:
            for queue, gates in sorted(self._unheard):
                emit("gate.repaired", level=logging.ERROR, queue=queue, gates=gates, known=0, waits=True)
                keeper.waits(queue, gates)
            self._unheard = set()
        return more

    def _begin(self, site: Site) -> Keeper:
        self._sweep(site)
        begun = self._log.begin(site)
        keeper = Keeper({}, self._now())
        keeper.starts.owe(begun.debts)
        for queue, gates, jobs in begun.admitted:
            keeper.counts(queue, gates, jobs)
        for queue, gates, job in begun.unstarted:
            keeper.goes_yet(queue, gates, job)
        for queue, gates, _, _, first, seconds in begun.spent:
            keeper.spent(queue, gates, seconds or 0.0, weighs=first is None)
        self._lines.begin()
        self._keeper, self._locked, self._unheard = keeper, {}, set()
        self._compare_at, self._values_at, self._values_old = self._now() + COMPARE, 0.0, True
        return keeper

    def _read_values(self, site: Site, keeper: Keeper) -> None:
        """Tell the keeper the numbers and pauses of operators, if a hint has come since they were read, but not just now."""
        now = self._now()
        if self._values_old and now >= self._values_at:
            keeper.values({name: (number, per, burst) for name, number, per, burst in site.connection.run("gate_values")})
            paused: defaultdict[str, set[str]] = defaultdict(set)
            for gate, key in site.connection.run("pause_gates"):
                paused[gate].add(key)
            keeper.pauses(dict(paused))
            self._values_at, self._values_old = now + VALUES, False

    def _list_lines(self, site: Site, keeper: Keeper) -> None:
        """Tell the keeper the next of the lines in which jobs wait: in a new term all of them, and now and then to compare."""
        if not self._lines.left:
            return
        began = self._now()
        found = self._lines.read(site)
        if keeper.knows_lines:
            self._unheard.update(name for name in found if not keeper.knows(*name))
            self._compared(self._now() - began)
            return
        for queue, gates in found:
            keeper.waits(queue, gates)
        keeper.knows_lines = not self._lines.left

    def _report(self, keeper: Keeper) -> None:
        """Tell of lines whose gates nobody can read (their jobs wait, and hold up no other), and of numbers that differ."""
        for queue, gates in keeper.unreadable:
            emit("gate.unreadable", level=logging.ERROR, queue=queue, gates=gates)
        keeper.unreadable.clear()
        for (gate, number), before in keeper.differing.items():
            if (gate, number) not in self._told and len(self._told) < TOLD:
                self._told.add((gate, number))
                emit("gate.differs", level=logging.WARNING, gate=gate, number=number, before=before)
        keeper.differing.clear()

    def _let_go(self, site: Site, keeper: Keeper, chosen: list[tuple[Place, Line]]) -> None:
        admitted = self._move(site, "gate_admit", chosen)
        for place, line, waits in self._left(site, chosen, admitted):
            keeper.stayed(line, place, waits)

    def _drop(self, site: Site, keeper: Keeper, dropped: list[tuple[Place, Line]]) -> None:
        """End jobs that found no room at a rate that drops those."""
        ended = self._move(site, "gate_drop", dropped)
        for place, line, waits in self._left(site, dropped, ended):
            if waits:
                keeper.aside(line, place)
        keeper.dropped_from(line for _, line in dropped)
        gone = set(ended)
        for queue, jobs in Counter(line.queue for place, line in dropped if job_of(place) in gone).items():
            emit("rate.dropped", queue=queue, jobs=jobs)

    def _move(self, site: Site, name: str, given: list[tuple[Place, Line]]) -> list[int]:
        """Let jobs go, or drop them; return which of them that is true of: none if it took too long."""
        ids = [job_of(place) for place, _ in given]
        moved: list[int] = []
        with put_off():
            moved, *_ = hints.sending(site.connection, lambda channel: site.write(name, ids, channel))
        site.changed += len(moved)
        return moved

    def _left(self, site: Site, given: list[tuple[Place, Line]], moved: Iterable[int]) -> list[tuple[Place, Line, bool]]:
        """Return those of the jobs given that a statement has not moved, and whether they wait yet: then their rows were locked.

        The first place of a line comes at last, for the line is cut there.
        """
        gone, until = set(moved), self._now() + LOCKED
        stayed = [(place, line) for place, line in given if job_of(place) not in gone]
        if not stayed:
            return []
        (waiting,) = site.connection.run_one("gate_left", [job_of(place) for place, _ in stayed])
        for place, line in stayed:
            if job_of(place) in waiting:
                self._locked.pop((line.queue, line.gates), None)
                self._locked[line.queue, line.gates] = until
        return [(place, line, job_of(place) in waiting) for place, line in reversed(stayed)]

    def _ask_starts(self, site: Site, keeper: Keeper) -> None:
        """Ask which of the jobs that were let go at rates have started."""
        asked = keeper.starts.to_ask()
        if asked:
            ids, seconds = site.connection.run_one("gate_started", asked)
            keeper.tick(self._now())
            keeper.started(asked, dict(zip(ids, seconds, strict=True)))

    def _record_debts(self, site: Site, keeper: Keeper) -> None:
        """Put on record what a new leader must know of the keys at rates: nothing starts there for a while."""
        owed = keeper.starts.owed()
        if owed:
            site.write("gate_owe", *(list(column) for column in zip(*owed, strict=True)))

    def _try_locked(self, keeper: Keeper) -> None:
        """Try those jobs again that were found locked."""
        now = self._now()
        for name in [name for name, due in self._locked.items() if due <= now]:
            del self._locked[name]
            keeper.again(*name)

    def _compare(self, site: Site, keeper: Keeper) -> None:
        """Compare the memory with the tables, and repair it."""
        began = self._now()
        swept = self._sweep(site)
        with put_off():
            (found,) = site.connection.run_one("gate_compare")
            lines = _counted(found) if found else []
            for queue, gates, known, counted in differences(keeper, lines):
                emit("gate.repaired", level=logging.ERROR, queue=queue, gates=gates, known=known, counted=counted)
                keeper.freed(queue, gates, known - counted)
            self._holds.look(site, lines)
        self._lines.begin()
        self._taken, self._least = 0.0, SOON if swept else COMPARE
        self._compared(self._now() - began)

    def _compared(self, took: float) -> None:
        """Put the next comparison off by so much more, since a part of this one took so long."""
        self._taken += took
        self._compare_at = self._now() + max(self._least, REST * self._taken)

    def _sweep(self, site: Site) -> bool:
        """Remove the permits of jobs that are no more; tell whether there were any."""
        found = None
        with put_off():
            (found,) = site.write("gate_sweep")
        lines = _counted(found) if found else []
        for queue, gates, jobs in lines:
            emit("gate.repaired", level=logging.ERROR, queue=queue, gates=gates, permits=jobs)
        return bool(lines)

    def _idle(self, site: Site, keeper: Keeper) -> float:
        """Return how long to rest; a hint ends it. Each run has a reason, which may be an event that was committed late.

        It may also be a number that an operator has set, so a run that came too soon to read these is followed by one that does.
        """
        now = self._now()
        idle = IDLE_POLLING if site.config.poll_only else IDLE
        dues = [due - now for due in (self._compare_at, keeper.starts.due(), *list(self._locked.values())[:1])]
        if self._values_old:
            dues.append(self._values_at - now)
        return max(0.0, min(idle, self._log.due(), *dues))
