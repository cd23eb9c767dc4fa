"""One run of the gatekeeper's simulation: leaders, one after the other, let jobs go on a model of Postgres while others write.

The chore, its log and its keeper are the real ones. Postgres is a model (server.py), the others are drawn from the seed
(crowd.py), time is put in place, and no thread runs: the same seed is the same run, statement by statement. Each seed has a
weather of its own, drawn first: some lose hints, some connections, some have many leaders, some a program that knows no gates.

At each statement that lets jobs go:
- no key has more admitted weight than its number, as the term has read that last or a program has it, unless one job alone is
  heavier;
- in one line none goes before an older one (by priority and id) that the term has been told of, unless the row of that one was
  locked when the same statement tried it.

After each run of the chore of the present term:
- the keeper counts in each line just the jobs that count in the tables, and those whose end it has not read;
- each waiting job that it has been told of is in the window of its line, or behind it;
- windows are no longer than they may be;
- no tenant of a fair gate waits for its turn while there is room;
- where it rests, and has read all that there is: no job could go that is the first at each of its keys.

At the end: all jobs have gone, the keeper has forgotten everything, and nothing was repaired but what the old program broke.
"""

import bisect
import random
import time
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from fastq import events
from fastq.config import Config
from fastq.errors import LeaseLost
from fastq.lead.gate import gate_log, gatekeeper, keeper, reading
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.lead.gate.keys import job_of, priority_of
from fastq.lead.term.chore import Site
from fastq.leases.lease import Fence
from fastq.postgres import hints
from tests.simulation.gate.crowd import Crowd
from tests.simulation.gate.paces import Ledger, Pace
from tests.simulation.gate.server import EVERY, Server, Session, Sums, grouped
from tests.simulation.server import Clock, Schedule

CONFIG = Config()
SECONDS = 1.5  # s of writing
PATIENCE = 3_000.0  # s after it until all jobs must be gone: with many hints lost one job goes each ten seconds
SOON = 0.9 * gatekeeper.IDLE  # s: a rest that is shorter is none; a read that takes a second puts off the next one for three
TRIES = 20  # of a job whose row is locked, in a second
SMALL = {
    (keeper, "FIRST_WINDOW"): 2,
    (keeper, "LARGEST_WINDOW"): 4,
    (gatekeeper, "BATCH"): 8,
    (reading, "WINDOWS"): 3,
    (reading, "LINES"): 2,
    (gatekeeper, "COMPARE"): 2.0,
    (gate_log, "BATCH"): 5,
    (gate_log, "ASK"): 0.1,
}
"""The gatekeeper's figures in a run: small ones, so that each is met."""
LARGEST_WINDOW = SMALL[keeper, "LARGEST_WINDOW"]


@dataclass
class Weather:
    """What a seed brings."""

    gates: int
    numbers: list[list[int]]  # of each gate, in the code: another one in programs of another version
    keys: list[int]  # of each gate
    queues: int
    lost_hints: float  # share of the hints that are lost
    lost: float  # share of the statements whose connection is lost, before or after they took effect
    canceled: float  # share of the statements that walk over what is gone, and are ended by their time limit
    leaders: float  # changes of the leader in a second
    stops: float  # share of leaders that stop in order: the others find out by a statement that does nothing
    slow: float  # share of statements that take up to a second
    late: float  # s for which a transaction is open at most
    holds: float  # share of the operator's transactions that are late, with locked rows
    orders: float  # of the operator in a second
    rate: float  # transactions that enqueue in a second
    burst: int  # jobs of the largest statement
    busy: float  # mean seconds that a job runs
    trouble: float  # share of attempts that do not end the job
    old_program: float  # share of jobs that a program without gates ends
    paces: list[Pace]  # the rates

    @classmethod
    def of(cls, dice):
        gates = dice.randint(1, 3)
        old_program = dice.random() < 0.1
        burst = dice.choice([1, 4, 20])
        return cls(
            gates=gates,
            numbers=[dice.sample([1, 2, 5, 20], dice.choice([1, 1, 1, 2])) for _ in range(gates)],
            keys=[dice.choice([1, 1, 2, 6]) for _ in range(gates)],
            queues=dice.choice([1, 2]),
            lost_hints=dice.choice([0, 0, 0.1, 0.5]),
            lost=0 if old_program else dice.choice([0, 0, 0.005, 0.05]),
            canceled=dice.choice([0, 0, 0.1, 0.5]),
            leaders=0 if old_program else dice.choice([0, 0, 1.0, 4.0]),
            stops=dice.choice([0, 0.5, 1]),
            slow=dice.choice([0, 0, 0.02]),
            late=dice.choice([0.05, 0.3, 2.0]),
            holds=dice.choice([0, 0.5, 1]),
            orders=dice.choice([0.5, 5, 20]),
            rate=dice.choice([6, 12]) if burst > 1 else 60,
            burst=burst,
            busy=dice.choice([0.001, 0.01, 0.05]),
            trouble=dice.choice([0, 0.2]),
            old_program=0.2 if old_program else 0,
            paces=[Pace.of(dice, number) for number in range(0 if old_program else dice.choice([0, 0, 1, 2]))],
        )


class Leader:
    """One term of the schema's lease, as a track goes it."""

    def __init__(self, world, term):
        self.world, self.term = world, term
        self.chore = Gatekeeper()
        self.site = Site(None, Fence("schema", f"leader {term}", term), CONFIG, "", lambda seconds: False)
        self.over = self.runs = self.woken = False
        self.turn = 0  # counts the rests: a wake-up ends one
        self.connect()
        self.rest(0.0)

    def connect(self):
        self.site.connection = Session(self.world.server, self.world)

    def rest(self, seconds):
        self.turn += 1
        turn = self.turn
        self.world.schedule.after(seconds, lambda: self.step() if turn == self.turn else None)

    def wake(self):
        self.woken = True
        if not self.runs and not self.over:
            self.rest(0.0)

    def step(self):
        if self.over:
            return
        self.site.woken, self.woken, self.runs, began = self.woken, False, True, self.world.clock.ns
        try:
            pause = self.chore.run(self.site)
            self.world.check_run(self, began, pause)
        except LeaseLost:
            assert self.term != self.world.server.term, "the present term was told that it is over"
            self.over = True
        except psycopg.OperationalError:
            self.connect()
            pause = 0.5
        self.runs = False
        if not self.over:
            self.rest(0.0 if self.woken else max(pause, 0.0001))


class World:
    """Everything of one run."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.weather = Weather.of(self.dice)
        self.sort = random.Random(f"sort {seed}").choice(["limit"] * 6 + ["fair"] * 2 + ["order"] * 2)  # of the first gate
        self.clock = Clock()
        self.schedule = Schedule(self.clock)
        self.sums = Sums()
        self.server = Server(self.clock, self.dice, self.sums)
        self.server.passed = self.check_passed
        self.server.ledger = Ledger(self.clock, self.weather.paces)
        self.writes_until = self.clock.ns + int(SECONDS * 1e9)
        self.crowd = Crowd(self)
        self.leader = self.wrong = None

    def run(self):
        """Let it all happen; return the sums."""
        with put_in_place(self.clock), told(self.event):
            self.lead()
            self.crowd.start()
            self.schedule.after(SECONDS, self.calm)
            while not self.over():
                self.schedule.next()
                assert self.wrong is None, f"the memory was wrong: {self.wrong}"
                assert self.clock.ns < self.writes_until + PATIENCE * 1e9, f"{self.left()} are left"
        self.check_end()
        return self.sums

    def over(self):
        if self.clock.ns < self.writes_until or self.crowd.busy or self.server.rows or self.server.events:
            return False
        return not self.leader.runs and self.keeper is not None and not self.leader.chore._lines.left and self.forgotten()

    def left(self):
        return [(row.id, row.state, row.gates, row.told) for row in self.server.rows.values()][:5]

    @property
    def keeper(self):
        return self.leader.chore._keeper

    def calm(self):
        """End all that could go on for ever."""
        self.weather.lost = self.weather.canceled = self.weather.leaders = 0
        self.server.values.clear()
        self.server.paused.clear()

    def event(self, event):
        """Hear an event: of dropped jobs, of numbers that differ, of a repair, and that only where an old program does harm."""
        if event.name in ("rate.dropped", "gate.differs"):
            return
        self.sums.repaired += 1
        if not self.weather.old_program:
            self.wrong = event

    # leaders

    def lead(self):
        """Begin a term, and plan its end."""
        if self.leader is not None and self.dice.random() < self.weather.stops:
            self.leader.over = True
        self.server.term += 1
        self.leader = Leader(self, self.server.term)
        if self.weather.leaders:
            self.schedule.after(self.dice.expovariate(self.weather.leaders), lambda: self.weather.leaders and self.lead())

    def hint(self):
        self.leader.wake()

    # statements

    def fate(self):
        return self.dice.choice(["before", "after"]) if self.dice.random() < self.weather.lost else "well"

    def cancels(self):
        return self.dice.random() < self.weather.canceled

    def statement_takes(self):
        return self.dice.random() * (1.0 if self.dice.random() < self.weather.slow else 0.002)

    def pass_by(self, seconds):
        """Let others do their work while a statement is under way."""
        self.schedule.pass_by(seconds)

    # checks

    def number(self, key, of=max):
        """Return the number of a key as the term has read it, else of those in the code: it may be any of them."""
        gate, _ = key
        number = self.leader.site.connection.values.get(gate, of(self.weather.numbers[int(gate[1:])]))
        return min(number, 1) if (gate, self.sort) == ("g0", "order") else number

    def paused(self, key):
        """Tell whether a key is paused, as the term has read that last."""
        gate, name = key
        return not {(gate, ""), (gate, name.decode())}.isdisjoint(self.leader.site.connection.paused)

    def check_passed(self, ids, going):
        """Check what a statement has let go."""
        server, place_in = self.server, {id_: at for at, id_ in enumerate(ids)}
        for key in {key for row in going for key in row.keys}:
            assert not self.paused(key), f"a job goes at {key}, which is paused"
        for key in {key for row in going for key, _ in row.needs}:
            weight, number = server.weights[key], self.number(key)
            alone = server.counts[key] == 1 and weight > number > 0
            assert weight <= number or alone, f"{weight} are admitted at {key}, which has {number}"
        for row in going:
            server.ledger.admit(row)
        for line, rows in grouped(going, lambda row: row.line):
            assert sorted(rows, key=lambda row: place_in[row.id]) == sorted(rows, key=lambda row: row.place), "out of order"
            last = max(row.place for row in rows)
            for place in server.lines.get(line, ()):
                older = server.rows[place[1]]
                if place > last:
                    break
                assert not older.told or older.id in place_in, f"job {last} goes before {place}"
        for row in [server.rows[id_] for id_ in ids if id_ in server.rows and server.rows[id_].locked]:
            tries = sum(at > self.clock.ns - 1e9 for at in row.tried_at)
            assert tries <= TRIES, f"job {row.id} was tried {tries} times in a second"

    def check_run(self, leader, began, pause):
        """Check the memory after a run."""
        if leader is not self.leader:
            return
        server, known = self.server, leader.chore._keeper
        if not self.weather.old_program:
            counted = {(queue, gates): jobs for queue, gates, jobs in server.counted(server.events)}
            assert {(one.queue, one.gates): one.admitted for one in known.every_line() if one.admitted} == counted, (
                "it counts otherwise"
            )
        for name, places in server.lines.items():
            line = known.lines.get(name[0], {}).get(name[1])
            if line is None:
                assert not known.knows_lines or not self.told(places), f"nobody knows that jobs wait in {name}"
                continue
            end = len(places) if line.after is None else bisect.bisect_right(places, pair(line.after))
            missed = {*self.told(places[:end])} - {pair(place) for place in line.waiting}
            assert not missed or not (known.knows_lines or line.waits()), f"{missed} are not in the window of {name}"
        for line in known.every_line():
            assert len(line.waiting) <= 2 * LARGEST_WINDOW, f"the window has {len(line.waiting)} places"
        keys = [key for gate in known.gates.values() for key in gate.keys.values()]
        standing = sum(len(key.standing) for key in keys if isinstance(key.standing, list))
        assert standing <= len([*known.every_line()]) * 4 * LARGEST_WINDOW, f"{standing} lines stand"
        if pause:
            self.check_rest(leader, began, pause)

    def told(self, places):
        return [place for place in places if self.server.rows[place[1]].told]

    def check_rest(self, leader, began, pause):
        unread = [event.id for event in self.server.events if event.at < began]
        assert not unread or pause < SOON, f"it rests for {pause} s, and has not read {unread}"
        if self.server.events or self.weather.old_program:
            return
        known, aside = leader.chore._keeper, leader.chore._locked
        heads = [self.server.rows[places[0][1]] for line, places in self.server.lines.items() if line not in aside]
        first = {}  # by key: of the jobs in the tables and of those in the memory, which may have been cancelled meanwhile
        for place, keys in [
            *((row.place, [key for key, _ in row.needs + row.paces]) for row in heads),
            *((pair(line.waiting[0]), names(line.keys)) for line in known.every_line() if line.waiting),
        ]:
            first.update({key: min(place, first.get(key, place)) for key in keys})
        for row in heads:
            waits_for_time = row.paces and pause < SOON
            is_first = all(self.is_next(row, key, first) for key, _ in row.needs + row.paces)
            free = is_first and not waits_for_time and not any(self.paused(key) for key in row.keys)
            if free and all(self.has_room(key, weight) for key, weight in row.needs):
                raise AssertionError(f"it rests for {pause} s, and job {row.id} could go")

    def is_next(self, row, key, first):
        """Tell whether a job is the first at a key; at a fair gate it may be the turn of any."""
        return key[1] == EVERY or first[key] == row.place

    def has_room(self, key, weight):
        taken, number = self.server.weights[key], self.number(key, min)
        return taken + weight <= number or (not taken and number > 0)

    def forgotten(self):
        known = self.keeper
        return not (known.lines or known.gates)

    def check_end(self):
        assert not self.server.weights.total(), "some jobs count still"


def pair(place):
    return priority_of(place), job_of(place)


def names(keys):
    return [(key.gate.name, key.key.encode()) for key in keys]


@contextmanager
def told(hear):
    """Have a function called with each event."""
    unsubscribe = events.subscribe(hear)
    try:
        yield
    finally:
        unsubscribe()


@contextmanager
def put_in_place(clock):
    """Have the simulated modules live by this clock, and by figures that suit a run of seconds."""
    modules = (gatekeeper, gate_log, hints, reading)
    before = {at: getattr(*at) for at in SMALL}
    for module in modules:
        assert module.time is time, f"{module.__name__} no longer lives by the module time"
        module.time = clock
    for (module, name), value in SMALL.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for module in modules:
            module.time = time
        for (module, name), value in before.items():
            setattr(module, name, value)


def simulate(seed):
    """Run one seed; raise AssertionError, which says what went wrong, if anything did."""
    return World(seed).run()


def replay(seed):
    """Say how a seed is run once more."""
    return f"python -m tests.simulation --of gate --first {seed} --seeds 1"
