"""A model of Postgres: what the gatekeeper's statements see of it, and of the transactions that make jobs wait or end them.

Everything happens when it is called, in the one thread of the simulation, and the clock is the simulation's. The model keeps the
rows that the table would hold, the log of the gates, and the transactions that are open, with the numbers and the locks that
each has. Rows and events of a transaction are seen by others at its commit. It deliberately knows nothing of the gatekeeper: it
answers its statements by their names, as `fastq/sql` has them.
"""

import bisect
import zlib
from collections import Counter
from dataclasses import dataclass, field

import msgspec
import psycopg

from fastq.args.gates import read_entries

EVERY = b""


@dataclass(eq=False, slots=True)
class Row:
    """A job."""

    id: int
    queue: str
    priority: int
    gates: str  # as its meta has them
    needs: tuple  # the same, as ((gate, key), weight); the tenants of a fair gate share the key EVERY
    paces: tuple = ()  # and the rates
    keys: tuple = ()  # the keys of their own
    keeps: bool = False  # its room over its attempts: it is in order
    state: str = "written"  # and not visible; then scheduled, waiting, available, running, resting, gone
    due: int = 0  # ns, of one that is scheduled
    admitted: bool = False
    told: bool = False  # whether the present term has read that it waits
    attempts: int = 0
    starts: bool = False  # it was let go and has not been claimed
    claimed_at: int = 0  # ns
    locked: object = None  # by which transaction
    committed: bool = False
    waits_since: int = 0  # ns
    tried_at: list = field(default_factory=list)  # ns, of the times that it was to be let go and was locked

    @property
    def line(self):
        return self.queue, self.gates

    @property
    def place(self):
        return self.priority, self.id


@dataclass(eq=False, slots=True)
class Event:
    """A row of the log. `rows` are the jobs that it is about, which the gatekeeper is not told."""

    id: int
    queue: str
    gates: str
    jobs: int
    priority: int | None
    job: int | None
    rows: tuple
    until: int | None = None  # ns, of an event about rates
    at: int = 0  # ns, of the commit


WALKS = ("gate_lines", "gate_window")
"""The statements that may take long: they walk over the entries of jobs that are gone while an old snapshot lives."""


@dataclass(eq=False, slots=True)
class Transaction:
    """One that is open."""

    virtual: str
    events: list = field(default_factory=list)
    changes: list = field(default_factory=list)  # to make at the commit
    locks: list = field(default_factory=list)  # rows


@dataclass
class Sums:
    """What happened in a run; `digest` tells two runs apart that send different statements, or at other moments."""

    statements: int = 0
    jobs: int = 0  # that were committed
    admitted: int = 0
    repaired: int = 0
    silent: int = 0  # jobs that an old program ended without an event
    digest: int = 0
    dropped: int = 0
    worst: int = 0  # ns that a job waited


class Server:
    """The database."""

    def __init__(self, clock, dice, sums):
        self.clock, self.dice, self.sums = clock, dice, sums
        self.ids = self.event_id = self.virtual = 0
        self.rows = {}  # living jobs that are committed, by id
        self.archive = {}
        self.permits = {}  # the lines of the jobs that were let go and have not left, by id
        self.lines = {}  # (queue, gates) -> the places of the jobs that wait there, sorted
        self.events = []  # committed ones, by id
        self.open = []
        self.term = 0
        self.values = {}  # numbers that operators have set
        self.paused = set()  # gates with their keys, as operators have paused them; an empty key is all of the gate
        self.weights, self.counts = Counter(), Counter()  # of admitted jobs by key
        self.debts = {}  # ns, by gate and key
        self.ledger = None
        self.passed = lambda ids, rows: None  # called with the ids that were to be let go, and the rows that were
        self.offered = lambda row: None  # called with each row that becomes available

    # transactions

    def begin(self):
        self.virtual += 1
        transaction = Transaction(f"7/{self.virtual}")
        self.open.append(transaction)
        return transaction

    def lock(self, transaction, rows):
        for row in rows:
            row.locked = transaction
            transaction.locks.append(row)

    def tell_freed(self, transaction, rows):
        """Append to the log that rows count no longer, as the statements do that end jobs."""
        for (queue, gates), found in grouped(rows, lambda row: row.line):
            self._append(transaction, Event(0, queue, gates, len(found), None, None, found))

    def tell_came(self, transaction, rows):
        """Append to the log that rows begin to wait, as the statements do that make jobs wait."""
        for (queue, gates, priority), found in grouped(rows, lambda row: (row.queue, row.gates, row.priority)):
            self._append(transaction, Event(0, queue, gates, len(found), priority, min(row.id for row in found), found))

    def tell_limited(self, transaction, rows, until):
        """Append that rows leave and wait again, and that nothing may start at their rates."""
        for (queue, gates, priority), found in grouped(rows, lambda row: (row.queue, row.gates, row.priority)):
            first = min(row.id for row in found)
            self._append(transaction, Event(0, queue, gates, len(found), priority, first, found, until))

    def tell_spent(self, transaction, gates, until):
        self._append(transaction, Event(0, "", gates, 0, None, None, (), until))

    def _append(self, transaction, event):
        self.event_id += 1
        event.id = self.event_id
        transaction.events.append(event)

    def commit(self, transaction):
        """Let everybody see what a transaction has done."""
        self._end(transaction)
        for change, rows in transaction.changes:
            for row in rows:
                change(row)
        for event in transaction.events:
            event.at = self.clock.ns
            bisect.insort(self.events, event, key=lambda one: one.id)

    def roll_back(self, transaction):
        self._end(transaction)

    def _end(self, transaction):
        self.open.remove(transaction)
        for row in transaction.locks:
            row.locked = None

    # changes of a row

    def show(self, row):
        """Let everybody see a new row, in the state that it was written with."""
        if not row.committed:
            row.committed = True
            self.sums.jobs += 1
        self.rows[row.id] = row
        self.archive.pop(row.id, None)

    def wait(self, row):
        self._leave_line(row)
        row.starts = False
        row.state, row.told, row.waits_since = "waiting", False, self.clock.ns
        bisect.insort(self.lines.setdefault(row.line, []), row.place)

    def available(self, row):
        self._leave_line(row)
        row.state = "available"
        self.offered(row)

    def admit(self, row):
        self.available(row)
        self.sums.admitted += 1
        self.sums.worst = max(self.sums.worst, self.clock.ns - row.waits_since)
        row.admitted = row.starts = True
        self.permits[row.id] = row.line
        for key, weight in row.needs:
            self.weights[key] += weight
            self.counts[key] += 1

    def free(self, row):
        self.permits.pop(row.id, None)
        self._count_no_longer(row)

    def _count_no_longer(self, row):
        if row.admitted:
            row.admitted = False
            for key, weight in row.needs:
                self.weights[key] -= weight
                self.counts[key] -= 1

    def finish(self, row):
        self.free(row)
        self.finish_without_a_word(row)

    def finish_without_a_word(self, row):
        """Do what a program does that is older than gates: the permit stays."""
        self._leave_line(row)
        self._count_no_longer(row)
        row.state = "gone"
        self.archive[row.id] = self.rows.pop(row.id)

    def _leave_line(self, row):
        if row.state == "waiting":
            places = self.lines[row.line]
            del places[bisect.bisect_left(places, row.place)]
            if not places:
                del self.lines[row.line]

    # the gatekeeper's statements

    def holds(self, term):
        return int(term == self.term)

    def pause_gates(self):
        """sql/pause_gates.sql."""
        return sorted(self.paused)

    def gate_values(self):
        return [(name, number, None, None) for name, number in sorted(self.values.items())]

    def gate_begin(self, name, holder, term):
        """sql/gate_begin.sql."""
        admitted = self.counted([])
        gone = self.events if self.holds(term) else []
        highest = max((event.id for event in gone), default=0)
        now = self.clock.ns
        debts = {key: until for key, until in self.debts.items() if until > now}
        unstarted = [(*self.permits[id_], id_) for id_ in self.permits if self.waits_for_a_process(id_)]
        if self.holds(term):
            self.events = []
            for row in self.rows.values():
                row.told = True
            self.ledger.begin(dict(debts))
            for event in gone:
                self.hear_of_rate(event)
        return (
            self.holds(term),
            len(gone),
            highest,
            self._as_json(admitted),
            self._as_json([self._told(event) for event in gone if event.until is not None]),
            self._as_json(unstarted),
            self._as_json([(name, key.decode(), (until - now) / 1e9) for (name, key), until in debts.items()]),
        )

    def waits_for_a_process(self, id_):
        return id_ in self.rows and self.rows[id_].paces and self.rows[id_].state in ("available", "resting")

    def hear_of_rate(self, event):
        """Have the ledger know what the term is told."""
        if event.until is None:
            return
        rates = [entry for entry in read_entries(event.gates) if entry.sort == "rate"]
        for entry in rates:
            key = entry.name, bytes(entry.key)
            if event.job is None:
                self.ledger.take(key, entry.weight)
            else:
                self.ledger.hold([key], event.until)

    def _told(self, one):
        seconds = None if one.until is None else (one.until - self.clock.ns) / 1e9
        return one.queue, one.gates, one.jobs, one.priority, one.job, seconds

    def gate_read(self, name, holder, term, after, most):
        """sql/gate_read.sql: in no order."""
        begin = bisect.bisect_right(self.events, after, key=lambda one: one.id)
        read = self.events[begin : begin + most] if self.holds(term) else []
        if self.holds(term):
            del self.events[begin : begin + most]
            for event in read:
                for row in event.rows:
                    row.told = row.told or event.job is not None
                self.hear_of_rate(event)
        self.dice.shuffle(read)
        events = [self._told(one) for one in read]
        highest = max((one.id for one in read), default=0)
        return self.holds(term), len(read), highest, self._as_json(events), "off"

    def gate_writers(self):
        return ([transaction.virtual for transaction in self.open if transaction.events],)

    def gate_window(self, queues, gates, priorities, ids, most):
        """sql/gate_window.sql."""
        found = []
        for nth, (queue, names, priority, after) in enumerate(zip(queues, gates, priorities, ids, strict=True), start=1):
            places = self.lines.get((queue, names), [])
            begin = bisect.bisect_right(places, (priority, after))
            found += [(nth, *place) for place in places[begin : begin + most]]
        return tuple(list(column) for column in zip(*found, strict=True)) if found else (None, None, None)

    def gate_lines(self, queue, gates, most):
        """sql/gate_lines.sql."""
        found = sorted(line for line in self.lines if line > (queue, gates))
        return (self._as_json(found[:most]),)

    def gate_admit(self, name, holder, term, ids, channel):
        """sql/gate_admit.sql: an answer in no order."""
        if not self.holds(term):
            return 0, [], 0
        rows = [self.rows[id_] for id_ in ids if id_ in self.rows and self.rows[id_].state == "waiting"]
        for row in [self.rows.get(id_) or self.archive[id_] for id_ in ids]:
            self.ledger.keep_busy(row)  # also by a job that does not go: the next one is dropped before anybody knows
        for row in rows:
            if row.locked:
                row.tried_at.append(self.clock.ns)
        going = [row for row in rows if not row.locked]
        for row in going:
            self.admit(row)
        self.passed(ids, going)
        admitted = [row.id for row in going]
        self.dice.shuffle(admitted)
        return 1, admitted, 0

    def gate_started(self, ids):
        """sql/gate_started.sql."""
        started = [id_ for id_ in ids if not self.waits_for_a_process(id_)]
        running = [id_ in self.rows and self.rows[id_].state == "running" for id_ in started]
        ages = [
            (self.clock.ns - self.rows[id_].claimed_at) / 1e9 if runs else 0.0 for id_, runs in zip(started, running, strict=True)
        ]
        return started, ages

    def gate_owe(self, name, holder, term, names, keys, seconds):
        """sql/gate_owe.sql."""
        if self.holds(term):
            now = self.clock.ns
            self.debts = {key: until for key, until in self.debts.items() if until > now}
            for gate, key, owes in zip(names, keys, seconds, strict=True):
                self.debts[gate, key.encode()] = now + int(owes * 1e9)
        return self.holds(term), len(names), 0, "off"

    def gate_drop(self, name, holder, term, ids, channel):
        """sql/gate_drop.sql."""
        if not self.holds(term):
            return 0, [], 0
        rows = [
            self.rows[id_] for id_ in ids if id_ in self.rows and self.rows[id_].state == "waiting" and not self.rows[id_].locked
        ]
        for row in rows:
            self.ledger.drop(row, [self.rows[id_] for id_ in self.permits if self.waits_for_a_process(id_)])
            self.finish(row)
            self.sums.dropped += 1
        return 1, [row.id for row in rows], 0

    def gate_left(self, ids):
        """sql/gate_left.sql."""
        return ([id_ for id_ in ids if id_ in self.rows and self.rows[id_].state == "waiting"],)

    def gate_sweep(self, name, holder, term):
        """sql/gate_sweep.sql."""
        gone = (
            [id_ for id_ in self.permits if id_ not in self.rows or self.rows[id_].state == "waiting"] if self.holds(term) else []
        )
        lines = Counter(self.permits.pop(id_) for id_ in gone)
        for (queue, gates), jobs in lines.items():
            self.event_id += 1
            self.events.append(Event(self.event_id, queue, gates, jobs, None, None, (), self.clock.ns))
        return self.holds(term), self._as_json([(*line, jobs) for line, jobs in lines.items()])

    def gate_compare(self):
        """sql/gate_compare.sql."""
        return (self._as_json(self.counted(self.events)),)

    def counted(self, events):
        """Return how many jobs count in each line: admitted ones, and those whose end these events tell."""
        lines = Counter(self.permits.values())
        for event in events:
            if event.jobs and (event.priority is None or event.until is not None):
                lines[event.queue, event.gates] += event.jobs
        return [(queue, gates, jobs) for (queue, gates), jobs in lines.items()]

    def _as_json(self, rows):
        return msgspec.json.encode(rows).decode() if rows else None


def grouped(rows, by):
    groups = {}
    for row in rows:
        groups.setdefault(by(row), []).append(row)
    return [(name, tuple(found)) for name, found in groups.items()]


class Session:
    """A connection to the model, with the methods of `fastq.postgres.db.Connection` that the gatekeeper uses.

    Time passes before and after each statement, in which others do their work.
    """

    schema = "fastq"
    no_hints_until = 0.0

    def __init__(self, server, world):
        self._server = server
        self._world = world
        self.values = {}  # as this session has read them last, and the pauses
        self.paused = set()

    def run(self, name, *params):
        return self._send(name, params)

    def run_one(self, name, *params):
        return self._send(name, params)

    def _send(self, name, params):
        server, world = self._server, self._world
        server.sums.statements += 1
        server.sums.digest = zlib.crc32(repr((name, params, server.clock.ns)).encode(), server.sums.digest)
        fate = world.fate()
        world.pass_by(world.statement_takes() / 2)
        if fate == "before":
            raise psycopg.OperationalError("the connection was lost")
        if name in WALKS and world.cancels():
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
        answer = getattr(server, name)(*params)
        if name == "gate_values":
            self.values = {name: number for name, number, *_ in answer}
        if name == "pause_gates":
            self.paused = {*answer}
        if fate == "after":
            raise psycopg.OperationalError("the connection was lost")
        world.pass_by(world.statement_takes() / 2)
        return answer
