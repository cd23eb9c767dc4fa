"""One run of the simulation: two hosts of two processes claim from a model of Postgres while transactions do their worst.

The processes work one queue, or several: then the rota and the peeks, which are for these, are the real ones, too. The cursor,
its claims, its low-water mark, its re-scan, the size of claims and the handing back of claims that were not answered are the
real ones. Postgres is a model (server.py), time is put in place, and no thread runs: all that happens is drawn from one seed,
so the same seed is the same run, statement by statement. Each seed has a weather of its own, drawn first: some lose claims,
some have a trigger that holds up inserts, some have rows that cannot be claimed.

After each step: nothing that everybody can see and claim lies at or below the low-water mark of a host, and the marks are in
their order. At the end: each job that was committed was claimed once, none is left, and the low-water marks have come up to the
frontiers.
"""

import random
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import psycopg

from fastq import size
from fastq.board import board
from fastq.board.board import Board
from fastq.config import Config
from fastq.postgres import hints, sqlstate
from fastq.work.claim import demand, rota, unanswered
from fastq.work.claim.demand import Portion
from fastq.work.claim.rota import Rota, encode
from fastq.work.claim.unanswered import Unanswered
from fastq.work.cursor import claims, cursor, looks, low_water, peeks
from fastq.work.cursor.claims import UnderWay
from fastq.work.cursor.cursor import Cursor
from fastq.work.cursor.looks import Claim, Look
from fastq.work.cursor.peeks import Peek, Peeks
from fastq.work.shared.budget import Budget
from tests.simulation.server import NAMES, PRIORITIES, Clock, Schedule, Server, Session

HOSTS, PROCESSES = 2, 2
BATCH = 20
POLL = 0.5  # s
CONFIG = Config(batch=BATCH, poll_interval=POLL)
SECONDS = 3.0  # s of writing
PATIENCE = 25.0  # s after it until all must be claimed, and the marks be where they belong
QUIET = 3.0  # s of writing's end until the run may end: what else is under way has come by then
EARLY = 0.8 * low_water.LAG  # s from a number to its row: less than the lag, as the cursor promises
LARGE, LARGE_BYTES, COUNTED_FROM = 1_000, 10_000, 10  # bytes of a job's args, of a process's, and the jobs whose share is small
ASIDE = 1.0  # s, in place of a minute


@dataclass
class Weather:
    """What a seed brings."""

    lost: float  # share of claims that are answered and then rolled back, as a failover does it
    cut: float  # share of claims whose answer does not come
    large: float  # share of jobs with large args
    refused: float  # share of jobs that cannot be claimed, while the trigger is there
    waiting: float  # share of jobs that wait for something
    busy: float  # mean seconds for which a process works what a claim brought
    burst: int  # jobs of the largest transactions
    slow_inserts: bool
    thin: int  # numbers that other queues take for each transaction
    rate: float  # transactions a second
    impatience: float  # share of looks, a millisecond apart, for the turn of others after which a process goes on without it
    restore: bool  # the database goes back to an earlier state

    @classmethod
    def of(cls, dice):
        return cls(
            lost=dice.choice([0, 0, 0.04]),
            cut=dice.choice([0, 0, 0, 0.03]),
            large=dice.choice([0, 0, 0, 0.2]),
            refused=dice.choice([0, 0, 0, 0.01]),
            waiting=dice.choice([0, 0, 0.1]),
            busy=dice.choice([0.001, 0.02, 0.1]),
            burst=dice.choice([5, 30, 120]),
            slow_inserts=dice.random() < 0.2,
            thin=dice.choice([0, 0, 30, 300]),
            rate=dice.choice([8, 12, 20]),
            impatience=dice.choice([0, 0, 0.01, 0.2]),
            restore=dice.random() < 0.1,
        )


class Turn:
    """A turn of one host. Between processes it is a lock of the kernel's, which one process cannot stand for."""

    held = False

    def take(self):
        """Take it if nobody has it."""
        taken, self.held = not self.held, True
        return taken

    def end(self):
        self.held = False


class Host:
    """One machine's board, and the turns: of its queues, and of the peeks."""

    def __init__(self, number, clock, queues):
        self.number = number
        self.board = _board(number, queues)
        self.board.words[:] = memoryview(bytes(self.board.words.nbytes)).cast("q")
        self.words = [self.board.cursor(queue) for queue in range(queues)]
        for words in self.words:
            words.swept_at = clock.ns
        self.turns = [Turn() for _ in range(queues + 1)]

    @property
    def turns_taken(self):
        return sum(turn.held for turn in self.turns)


@cache
def _board(number, queues):
    """Make the board of a host once for all seeds: its file cannot be closed."""
    return Board.make([1] * queues, PROCESSES, 4 * BATCH)


class Source:
    """What a process keeps for one queue, as its producer does."""

    def __init__(self, host, queue, make, *, peeked):
        self.feed = SimpleNamespace(number=queue, claimed=0)
        self.turn = host.turns[queue]
        self.cursor = make(host.board, queue, NAMES[queue], POLL, peeked=peeked)
        self.cursor.try_turn, self.cursor.end_turn = self.turn.take, self.turn.end
        self.portion = Portion(CONFIG)

    def waits(self):
        return False


class Process:
    """A worker process's way from claim to claim, as its producer goes it."""

    def __init__(self, world, host, place, make):
        self.world, self.host = world, host
        self.number = 2 * HOSTS * (place + 1) + host.number
        queues = len(host.words)
        self.sources = [Source(host, queue, make, peeked=queues > 1) for queue in range(queues)]
        self.budget = Budget(LARGE_BYTES, COUNTED_FROM)
        self.desk = host.board.desk(place)
        self.under_way = UnderWay(self.desk, self.number)
        self.unanswered = Unanswered(self.under_way, CONFIG, NAMES)
        self.session = None
        self.tried_for, self.taken = self.sources[0], 0  # the queue that was looked at last, and the jobs that came of it
        self.calls = b""  # in its pipe
        self.rota = None
        if queues > 1:
            peeks = Peeks(host.board, [source.cursor for source in self.sources], POLL, 1e6)
            peeks.try_turn, peeks.end_turn = host.turns[-1].take, host.turns[-1].end
            self.rota = Rota(self.sources, peeks, CONFIG, self.number)

    def live(self):
        """Claim and work for ever; yields the seconds until the next step."""
        while True:
            try:
                if self.session is None:
                    self.connect()
                pause = yield from self.look(self.sources[0]) if self.rota is None else self.visit()
            except psycopg.Error as error:
                pause = self.failed(error)
            yield pause

    def connect(self):
        self.under_way.connecting()
        if self.world.dice.random() < 0.2:
            raise psycopg.OperationalError("nobody answers")
        self.session = Session(self.world.server, self.world.fate)
        self.desk[board.SESSIONS[0]] = self.session.backend_pid
        self.unanswered.settle(self.session)

    def visit(self):
        """Look at the queue that is next, as `Producer._visit` does."""
        self.rota.hear(self.calls)
        self.calls = b""
        yield from self.scan()
        source = self.rota.next()
        if source is None:
            return min(max(self.rota.rest(), 0.001), 0.05)
        self.tried_for = source
        pause = yield from self.look(source)
        due_in = (source.cursor.due_at() - self.world.clock.ns) / 1e9
        self.rota.put(source, 0.0 if self.taken else max(due_in, 0.001))
        return pause if self.taken else 0.0

    def scan(self):
        """Look at all queues together, as `Rota.scan` does; time may pass before each statement and its answer."""
        rota, peeks = self.rota, self.rota.peeks
        if self.world.clock.monotonic() < rota._scan_at:
            return
        if peeks.due() and peeks.try_turn():
            try:
                peek = Peek(peeks) if peeks.due() else None
                while peek is not None and (read := peek.next_read()) is not None:
                    yield from self.pauses()
                    answer = self.session.run(read.statement, *read.params)
                    yield from self.pauses()
                    self.session.lives()
                    peek.learn(read, answer)
            finally:
                peeks.end_turn()
        rota.take_up()

    def look(self, source):
        """Claim in the host's turn, as `Producer._claim` does."""
        cursor, portion, dice = source.cursor, source.portion, self.world.dice
        self.tried_for, self.taken = source, 0
        wanted = portion.limit(BATCH if dice.random() < 0.7 else dice.randint(1, BATCH))
        if not cursor.due():
            return min(max((cursor.due_at() - self.world.clock.ns) / 1e9, 0.005), 0.05)
        while source.turn.held and dice.random() >= self.world.weather.impatience:
            yield 0.001
        part, last = None, None
        turn = cursor.take_turn()
        try:
            if not cursor.due():
                return 0.001
            cursor.claims.bound = portion.bound(self.budget)
            part = cursor.take_part(wanted) if turn and portion.whole else None
            if part is None:
                last = yield from self.send_look(source, wanted)
        finally:
            if turn:
                cursor.end_turn()
        if part is not None:
            yield dice.choice([0, 0.001, 0.01])
            last = cursor.claims.send_part(self.session, self.name(source, cursor.rescan.lowest()), part)
            yield from self.pauses()
            self.session.lives()
            cursor.learn_part(part, last)
        if last is not None:
            self.take(source, last)
        return dice.expovariate(1 / self.world.weather.busy) if self.taken or part else 0.001

    def send_look(self, source, wanted):
        """Send the statements of a look, as a producer does; time may pass before each, and before its answer is learned."""
        cursor, look, last = source.cursor, Look(source.cursor, wanted), None
        while (step := look.next_step()) is not None:
            if last is not None and (isinstance(step, Claim) or not step.brief):
                self.take(source, last)
                cursor.claims.bound, last = source.portion.bound(self.budget), None
            yield from self.pauses()
            if isinstance(step, Claim):
                answer = cursor.claims.send(self.session, self.name(source, cursor.rescan.lowest()), step.tried)
            else:
                answer = self.session.run(step.statement, *step.params)
            yield from self.pauses()
            self.session.lives()
            look.learn(step, answer)
            last = answer if isinstance(step, Claim) else last
        return last

    def pauses(self):
        if self.world.dice.random() < 0.1:
            yield self.world.dice.choice([0.001, 0.005, 0.2]) * self.world.dice.random()

    def name(self, source, after):
        return self.under_way.send(source.feed.number, after)

    def take(self, source, claimed):
        if len(claimed):
            source.portion.brought(len(claimed), len(claimed.args))
        self.under_way.answered()
        if not self.session.forgotten:  # else the database knows nothing of it: its jobs are claimed once more
            self.world.work(claimed)
            self.taken += len(claimed)

    def failed(self, error):
        source = self.tried_for
        cursor, portion = source.cursor, source.portion
        tried, cursor.claims.tried = cursor.claims.tried, None
        if tried is not None:
            portion.failed(tried.limit, cursor.name, error)
        if self.session is None or tried is None or not sqlstate.row_refused(error):
            self.session = None
            for each in self.sources:
                each.cursor.distrust()
            if self.rota is not None:
                self.rota.distrust()
            return 0.05
        if self.rota is not None:
            self.rota.put(source, 0.0)
        self.under_way.answered()
        cursor.look_again()
        first = cursor.claims.first(self.session, tried) if tried.limit == 1 else None
        if first is not None:
            job, kind, priority, seq = first
            if portion.set_aside(job, kind, error):
                cursor.pass_by(tried, priority, seq)
        return 0.0


class World:
    """Everything of one run."""

    def __init__(self, seed, make=Cursor, queues=1):
        self.queues = queues
        self.dice = random.Random(seed)
        self.weather = Weather.of(self.dice)
        self.clock = Clock()
        self.schedule = Schedule(self.clock)
        self.server = Server(self.clock, self.schedule, self.dice)
        self.server.slow_inserts = self.weather.slow_inserts
        self.server.refuses = bool(self.weather.refused)
        self.hosts = []
        for number in range(HOSTS):
            self.hosts.append(Host(number, self.clock, queues))
        self.processes = [Process(self, host, place, make) for host in self.hosts for place in range(PROCESSES)]
        self.lives = [process.live() for process in self.processes]
        self.committed, self.claimed = set(), set()
        self.writes_until = self.clock.ns + int(SECONDS * 1e9)
        self.quiet_until = 0

    def run(self):
        """Let it all happen; return the sums."""
        for life in self.lives:
            self.schedule.after(self.dice.random() * 0.05, self.stepping(life))
        for _ in range(3):
            self.schedule.after(self.dice.random() * 0.1, self.write)
        self.schedule.after(self.dice.random(), self.forget_a_transaction)
        if self.weather.refused:
            self.schedule.after(SECONDS / 2, self.drop_the_trigger)
        if self.weather.restore:
            self.schedule.after(SECONDS * 0.8, self.restore)
        with put_in_place(self.clock):
            try:
                while not self.over():
                    self.schedule.next()
                    self.check()
            finally:  # else a later run, which has the same boards, would meet the ends of these processes in its midst
                for life in self.lives:
                    life.close()
        assert not self.committed - self.claimed, f"{len(self.committed - self.claimed)} of {len(self.committed)} jobs are left"
        assert not self.behind(), f"low-water marks stay behind the frontiers: {self.behind()}"
        self.server.sums.jobs = len(self.committed)
        return self.server.sums

    def over(self):
        if self.clock.ns > self.writes_until + PATIENCE * 1e9:
            return True
        if self.clock.ns < self.writes_until + QUIET * 1e9 or self.committed - self.claimed:
            return False
        return not self.behind()

    def behind(self):
        """Return the low-water marks that have not come up to their frontiers, with these."""
        each = [words for host in self.hosts for words in host.words]
        pairs = [pair for words in each for pair in zip(words.low, words.frontier, strict=True)]
        return [(low, front) for low, front in pairs if low != front]

    def stepping(self, life):
        def step():
            self.schedule.after(max(next(life), 0.0001) * self.dice.uniform(0.5, 1.5), step)

        return step

    def check(self):
        """Compare the marks of both hosts with all that everybody can see."""
        for queue in range(self.queues):
            lowest = [self.server.lowest(priority + 1, queue) for priority in range(PRIORITIES)]
            for host in self.hosts:
                self.check_queue(host, queue, lowest)

    def check_queue(self, host, queue, lowest):
        words = host.words[queue]
        for priority in range(PRIORITIES):
            low, first = words.low[priority], lowest[priority]
            assert first is None or first > low, (
                f"job {first} of priority {priority + 1} in {NAMES[queue]} lies below the mark {low} of host {host.number}"
            )
            assert low <= words.frontier[priority], f"low {low} has passed the frontier of host {host.number}"
            assert words.rescan[priority] <= words.rescan_end[priority], "a pass has passed its end"

    # what processes do

    def fate(self):
        """Say what becomes of the next claim."""
        dice = self.dice.random()
        if dice < self.weather.lost:
            return "forgotten"
        return "cut" if dice < self.weather.lost + self.weather.cut else "well"

    def work(self, claimed):
        """Take the jobs of a claim on: most are done, some are handed back, some fail and are tried again, some wait."""
        server, dice = self.server, self.dice
        for id_ in claimed.ids:
            row = server.rows[id_]
            server.sums.worst = max(server.sums.worst, self.clock.ns - row.shown_at)
            fate = dice.random()
            if fate < 0.05:
                server.again(row)  # handed back: it never started
            elif fate < 0.05 + self.weather.waiting:
                server.wait(row)
                self.schedule.after(dice.random(), lambda row=row: self.admit(row))
            else:
                assert id_ not in self.claimed, f"job {id_} was claimed twice"
                self.claimed.add(id_)
                server.finish(row)

    def admit(self, row):
        """Let a job that waited go: to the one that knows it, past all claims, or to anybody."""
        if row.id not in self.server.rows:
            return  # the restore has lost it
        if self.dice.random() < 0.5:
            self.server.numbers(1)  # a row that runs has a number, too
            self.claimed.add(row.id)
            self.server.finish(row)
        else:
            self.server.again(row)
            self.wake(row.queue)

    def wake(self, queue):
        for host in self.hosts:
            if self.dice.random() < 0.95:  # a hint may be lost
                host.words[queue].wakes += 1
                if self.queues > 1:
                    called = self.dice.choice([process for process in self.processes if process.host is host])
                    called.calls += encode(queue)

    # what writers do

    def write(self):
        """Take numbers, write rows, commit or roll back: each when it likes; then come again."""
        dice, server, weather = self.dice, self.server, self.weather
        if self.clock.ns >= self.writes_until:
            return
        if self.clock.ns < self.quiet_until:
            self.schedule.after(1.0, self.write)
            return
        transaction = server.begin()
        count = dice.choice([1, 1, 2, 5, weather.burst])
        priority = dice.choice([1, 1, 1, 2, 3, 4])
        seqs = server.numbers(count)
        server.numbers(dice.randint(0, weather.thin))  # of another queue
        early = dice.choice([0, 0, 0, dice.random() * EARLY])
        if weather.slow_inserts and dice.random() < 0.3:
            early, transaction.locks_job = dice.random() * 3.0, True
        queue = dice.randrange(self.queues) if self.queues > 1 else 0
        rows = [self.row(priority, seq, queue) for seq in seqs]
        self.schedule.after(early, lambda: self.insert(transaction, rows))
        self.schedule.after(dice.expovariate(weather.rate), self.write)

    def row(self, priority, seq, queue):
        dice, weather = self.dice, self.weather
        size = LARGE if dice.random() < weather.large else 2
        return self.server.new_row(priority, seq, size, refused=dice.random() < weather.refused, queue=queue)

    def insert(self, transaction, rows):
        if transaction not in self.server.open:
            return  # it ended with the server
        for row in rows:
            self.server.write(transaction, row)
        open_for = self.dice.choice([0, 0, 0.001, self.dice.random() * 2.5])
        self.schedule.after(open_for, lambda: self.commit(transaction, rows))

    def commit(self, transaction, rows):
        server = self.server
        if transaction not in server.open:
            return
        server.end(transaction)
        if self.dice.random() < 0.15:
            for row in rows:
                del server.rows[row.id]
            return
        for row in rows:
            self.committed.add(row.id)
            server.show(row)
        if rows and self.dice.random() < self.weather.waiting / 4:
            server.wait(rows[0])
            self.schedule.after(self.dice.random(), lambda: self.admit(rows[0]))
        self.wake(rows[0].queue)

    def forget_a_transaction(self):
        """Open one that has an xid, and never ends: it pins xmin, and has nothing to do with jobs."""
        self.server.xid += 1
        self.server.begin().xid = self.server.xid

    def restore(self):
        """Have the database go back; new numbers come once all have connected again (those before are for a sweep to find)."""
        self.server.restore()
        self.committed = {id_ for id_ in self.committed if id_ in self.server.rows or id_ in self.claimed}
        self.quiet_until = self.clock.ns + int(1.5e9)
        self.writes_until = self.quiet_until + int(1.5e9)

    def drop_the_trigger(self):
        self.server.refuses = False


@contextmanager
def put_in_place(clock):
    """Have the simulated modules live by this clock, and by times that suit a run of seconds."""
    modules = (claims, cursor, looks, peeks, rota, size, demand, unanswered, hints)
    aside, demand.ASIDE = demand.ASIDE, ASIDE
    for module in modules:
        assert module.time is time, f"{module.__name__} no longer lives by the module time"
        module.time = clock
    try:
        yield
    finally:
        demand.ASIDE = aside
        for module in modules:
            module.time = time


def simulate(seed, make=Cursor):
    """Run one seed; raise AssertionError, which says what went wrong, if anything did."""
    return World(seed, make).run()


def simulate_many(seed, make=Cursor):
    """Run one seed with several queues."""
    return World(seed, make, len(NAMES)).run()


def replay(seed):
    """Say how a seed is run once more."""
    return f"python -m tests.simulation --first {seed} --seeds 1"


def replay_many(seed):
    """Say how a seed with several queues is run once more."""
    return f"python -m tests.simulation --of queues --first {seed} --seeds 1"
