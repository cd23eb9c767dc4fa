"""A model of Postgres: what the statements of a claim see of it, and of the transactions that write jobs.

Everything happens when it is called, in the one thread of the simulation, and the clock is the simulation's. The model keeps the
rows that the table would hold, the sequence, and the transactions that are open, each with its xid and its lock on job.
It deliberately knows nothing of cursors: it answers the statements by their names, as `fastq/sql` has them.
"""

import bisect
import heapq
import struct
import zlib
from dataclasses import dataclass

import psycopg

PRIORITIES = 4
QUEUE = "default"
NAMES = [QUEUE, "mails", "reports"]  # of queues, by their numbers
ATTEMPT, MAX_ATTEMPTS = 1, 25
NUMBER = struct.Struct(">q")
ELEMENT = struct.Struct(">iq")  # of a bigint[] on the wire: its length, its value
END = 2**62  # above all numbers
ARRAY_HEADER = 20  # bytes of a bigint[] before its elements


class Clock:
    """Stands for the module `time` where the simulated modules use it."""

    def __init__(self):
        self.ns = 10**12

    def monotonic_ns(self):
        return self.ns

    def monotonic(self):
        return self.ns / 1e9

    def sleep(self, seconds):
        self.pass_by(seconds)

    def pass_by(self, seconds):
        self.ns += int(seconds * 1e9)


class Schedule:
    """What happens when: events of one moment happen in the order in which they were put in."""

    def __init__(self, clock):
        self.clock = clock
        self._heap = []
        self._count = 0

    def after(self, seconds, call):
        self._count += 1
        heapq.heappush(self._heap, (self.clock.ns + int(seconds * 1e9), self._count, call))

    def next(self):
        """Let the next event happen; a moment that has passed meanwhile does not come back."""
        when, _, call = heapq.heappop(self._heap)
        self.clock.ns = max(self.clock.ns, when)
        call()

    def pass_by(self, seconds):
        """Let time pass, and happen what is to happen meanwhile: for one who waits in the middle of an event."""
        until = self.clock.ns + int(seconds * 1e9)
        while self._heap and self._heap[0][0] <= until:
            self.next()
        self.clock.ns = max(self.clock.ns, until)


@dataclass(eq=False, slots=True)
class Transaction:
    """One that is open. It gets an xid with its first row; its lock on job comes with the first insert, or before it."""

    virtual: str
    xid: int = 0
    locks_job: bool = False


@dataclass(eq=False, slots=True)
class Row:
    """A job. `refused`: a trigger refuses to have it changed."""

    id: int
    priority: int
    seq: int | None
    size: int = 2
    state: str = "written"  # and not visible; then available, running, waiting, gone
    claim: int = 0
    refused: bool = False
    queue: int = 0
    shown_at: int = 0  # ns, when it became available the last time


@dataclass
class Sums:
    """What happened in a run; `digest` tells two runs apart that send different statements, or at other moments."""

    statements: int = 0
    claims: int = 0
    digest: int = 0
    worst: int = 0  # ns from when a job became available until it was claimed
    jobs: int = 0  # that were committed


class Server:
    """The database."""

    def __init__(self, clock, schedule, dice):
        self.clock, self.schedule, self.dice = clock, schedule, dice
        self.seq = self.ids = self.xid = self.pid = 0
        self.rows = {}  # by id; those that are gone are not kept
        self.claims = {}  # ids by claim, of those that run
        self.open = set()
        self.restored_at_pid = 0
        self.slow_inserts = False  # a trigger holds up inserts between number and xid
        self.refuses = False  # the trigger that refuses rows is there
        self.locked = {}  # seq -> the transaction that has the row locked
        self.cut = {}  # what ends the transaction of a claim that was cut, by the pid of its session
        self.sums = Sums()
        self._available = [[[] for _ in range(PRIORITIES)] for _ in NAMES]  # seqs in their order, by queue and priority
        self._by_seq = {}

    # what transactions do

    def begin(self):
        transaction = Transaction(f"{len(self.open)}/{self.ids}/{self.seq}")
        self.open.add(transaction)
        return transaction

    def numbers(self, count):
        self.seq += count
        return list(range(self.seq - count + 1, self.seq + 1))

    def write(self, transaction, row):
        """Insert a job, which nobody else sees before the commit."""
        if not transaction.xid:
            self.xid += 1
            transaction.xid = self.xid
        transaction.locks_job = True
        self.rows[row.id] = row

    def new_row(self, priority, seq, size=2, refused=False, queue=0):
        self.ids += 1
        return Row(self.ids, priority, seq, size, refused=refused, queue=queue)

    def end(self, transaction):
        self.open.discard(transaction)

    def show(self, row):
        """Let everybody see a row, available at its number."""
        row.state, row.shown_at = "available", self.clock.ns
        bisect.insort(self._available[row.queue][row.priority - 1], row.seq)
        self._by_seq[row.seq] = row

    def hide(self, row):
        seqs = self._available[row.queue][row.priority - 1]
        del seqs[bisect.bisect_left(seqs, row.seq)]
        del self._by_seq[row.seq]

    def again(self, row):
        """Make a job that ran or waited available again: it gets a new number, in a transaction that is over at once."""
        self._unclaim(row)
        (row.seq,) = self.numbers(1)
        self.show(row)

    def wait(self, row):
        """Have a job wait for something: it leaves the index that claims go by."""
        if row.state == "available":
            self.hide(row)
        self._unclaim(row)
        row.state, row.seq = "waiting", None

    def finish(self, row):
        self._unclaim(row)
        row.state = "gone"
        del self.rows[row.id]

    def _unclaim(self, row):
        if row.state == "running":
            ids = self.claims[row.claim]
            ids.discard(row.id)
            if not ids:
                del self.claims[row.claim]

    def lowest(self, priority, queue=0):
        """Return the lowest number that is available, for everybody to see; None if none is."""
        return next(iter(self._available[queue][priority - 1]), None)

    def ahead(self, count):
        """Return up to so many of the first available rows."""
        lists = [seqs for of_queue in self._available for seqs in of_queue]
        return [self._by_seq[seq] for seqs in lists for seq in seqs[:count] if seq not in self.locked]

    # what the statements of a claim do

    def available(self, priority, after, upto, queue=0):
        seqs = self._available[queue][priority - 1]
        return seqs[bisect.bisect_right(seqs, after) : bisect.bisect_right(seqs, upto)]

    def claim(self, claim, seqs, bound):
        """Change the rows of a claim, of large ones up to the bytes; return them, and (bytes, first that was left)."""
        most, counted_from = bound
        taken, total, left = [], 0, None
        for seq in seqs:
            row = self._by_seq[seq]
            if row.size < counted_from:
                taken.append(row)
            elif total < most:
                total += row.size
                taken.append(row)
            else:
                left = left or (row.priority, seq)
        if self.refuses and any(row.refused for row in taken):
            raise psycopg.errors.RaiseException("not this one")
        for row in taken:
            self.hide(row)
            row.state, row.claim = "running", claim
        if taken:
            self.claims[claim] = {row.id for row in taken}
        return taken, total, left

    def undo(self, claim):
        """Roll a claim back: its rows are available at the numbers that they had."""
        for id_ in self.claims.pop(claim, ()):
            row = self.rows[id_]
            shown_at = row.shown_at
            self.show(row)
            row.shown_at = shown_at

    def restore(self):
        """Go back to an earlier state, as a failover to a standby that lagged: half of the numbers were never given out."""
        self.seq //= 2
        for row in [row for row in self.rows.values() if row.state == "written" or (row.seq or 0) > self.seq]:
            if row.state == "available":
                self.hide(row)
            self._unclaim(row)
            del self.rows[row.id]
        self.open.clear()
        self.cut.clear()
        self.locked.clear()
        self.restored_at_pid = self.pid  # sessions up to this one are cut

    def snapshot(self):
        return min((one.xid for one in self.open if one.xid), default=self.xid + 1), self.xid + 1

    def writers(self, xid, transactions):
        return any(one.locks_job and (0 < one.xid < xid or one.virtual in transactions) for one in self.open)

    def begun(self):
        return [(one.virtual,) for one in sorted(self.open, key=lambda one: one.virtual) if one.locks_job and not one.xid]

    def first(self, after, upto, aside, limit=1, queue=0):
        found = []
        for priority in range(1, PRIORITIES + 1):
            seqs = self.available(priority, after[priority - 1], upto[priority - 1], queue)
            found += [row for seq in seqs if (row := self._by_seq[seq]).id not in aside][:1]
        return found[:limit]


class Session:
    """A connection to the model, with the methods of `fastq.postgres.db.Connection` that a claim uses."""

    prepares = True
    schema = None  # no hints: the simulation wakes processes itself
    no_hints_until = 0.0

    def __init__(self, server, fate):
        self._server = server
        self._fate = fate  # says what becomes of the next claim that brings something
        server.pid += 1
        self.backend_pid = server.pid
        self.forgotten = False  # the last claim was answered, and yet it will be rolled back

    def run_blobs(self, name, params):
        server = self._server
        self._note(name, b"".join(params))
        queue = NAMES.index(params[1].decode())
        numbers = [NUMBER.unpack(param)[0] for at, param in enumerate(params) if at != 1 and len(param) == NUMBER.size]
        if name == "job_claim_part":
            claim, after, upto, *bound = numbers
            seqs = server.available(1, after, upto, queue)
            if any(seq in server.locked for seq in seqs):
                server.clock.pass_by(0.02)
                raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
        else:
            assert name == "job_claim", name
            claim, after, limit, upto, bound = numbers[0], numbers[1:5], numbers[5], numbers[6:10], numbers[10:12]
            seqs = self._picked(queue, after, limit, upto, aside_of(params[13]))
        return self._claimed(claim, *server.claim(claim, seqs, bound))

    def _picked(self, queue, after, limit, upto, aside):
        server, seqs = self._server, []
        for priority in range(1, PRIORITIES + 1):
            found = server.available(priority, after[priority - 1], upto[priority - 1], queue)
            if server.locked or aside:
                found = [seq for seq in found if seq not in server.locked and server._by_seq[seq].id not in aside]
            seqs += found[: limit - len(seqs)]
        return seqs

    def _claimed(self, claim, rows, total, left):
        """Answer a claim, unless its answer is lost."""
        server = self._server
        server.sums.claims += bool(rows)
        fate = self._fate() if rows else "well"
        self.forgotten = fate == "forgotten"
        if fate != "well":
            self._part_from(claim, rows, fate)
        if fate == "cut":
            raise psycopg.OperationalError("the connection is lost")
        rows = rows if server.dice.random() < 0.8 else rows[::-1]  # the order of pages
        where = f"{total} {left[0]} {left[1]}" if left else f"{total}"
        if not rows:
            return 0, [None] * 8 + [where.encode()]
        counts = ATTEMPT << 32 | MAX_ATTEMPTS << 16
        count, args = len(rows), b",\x1e".join([b"x" * row.size for row in rows])
        columns = ([row.id for row in rows], [row.seq for row in rows], [counts | row.priority for row in rows], [0] * count)
        blobs = [struct.pack(f">{count}q", *column) for column in columns]
        return count, [*blobs, b"\x1e".join([b"k"] * count), args, None, None, where.encode()]

    def _part_from(self, claim, rows, fate):
        """Let the claim's transaction go on by itself: it locks its rows, and ends in one way or the other a while later."""
        server = self._server
        server.undo(claim)
        server.xid += 1
        transaction = server.begin()
        transaction.xid, transaction.locks_job = server.xid, True
        locked = [(row, row.seq) for row in rows]
        for _, seq in locked:
            server.locked[seq] = transaction
        commits = fate == "cut" and server.dice.random() < 0.5

        def end():
            if transaction not in server.open:
                return
            server.end(transaction)
            for _, seq in locked:
                del server.locked[seq]
            if commits:  # an answer that was lost
                for row, _ in locked:
                    server.hide(row)
                    row.state, row.claim = "running", claim
                server.claims[claim] = {row.id for row, _ in locked}

        server.cut[self.backend_pid] = end
        server.schedule.after(server.dice.choice([0.4, 2.5]) * server.dice.random(), end)

    def lives(self):
        """Raise if the server has gone back since this session began: answers that were under way are lost with it."""
        if self.backend_pid <= self._server.restored_at_pid:
            raise psycopg.OperationalError("the server has gone")

    def run_one(self, name, *params):
        (row,) = self.run(name, *params)
        return row

    def run(self, name, *params):
        self._note(name, repr(params).encode())
        answer = getattr(self, f"_{name}", None)
        assert answer is not None, f"the model knows no statement {name}"
        return answer(*params)

    def _job_seq_last(self):
        return [(self._server.seq,)]

    def _cursor_check(self):
        return [(self._server.seq, self._server.slow_inserts)]

    def _cursor_begun(self):
        return self._server.begun()

    def _snapshot(self):
        return [self._server.snapshot()]

    def _cursor_writers(self, xid, transactions):
        return [(self._server.writers(xid, transactions),)]

    def _job_first_available(self, queue, *ends):
        number, lows, highs = NAMES.index(queue), ends[:PRIORITIES], ends[PRIORITIES:]
        return [tuple(next(iter(self._server.available(p + 1, lows[p], highs[p], number)), None) for p in range(PRIORITIES))]

    def _job_peek(self, queues, *lows):
        server = self._server
        asked = enumerate(zip(map(NAMES.index, queues), *lows, strict=True), 1)
        found = [
            place
            for place, (queue, *ends) in asked
            if any(server.available(p + 1, ends[p], END, queue) for p in range(PRIORITIES))
        ]
        return [(place, False) for place in found]

    def _job_peek_waiting(self, _):
        return []

    def _job_first(self, queue, *ends):
        rows = self._server.first(ends[:PRIORITIES], ends[PRIORITIES:-1], ends[-1], queue=NAMES.index(queue))
        return [(row.id, "k", row.priority, row.seq) for row in rows]

    def _job_of_claim(self, queue, after, claim):
        server = self._server
        ids = server.claims.get(claim, ())
        found = sorted(id_ for id_ in ids if server.rows[id_].seq > after)
        assert len(found) == len(ids), f"claim {claim} took what lies below {after}, where nobody looks for it"
        assert {server.rows[id_].queue for id_ in ids} <= {NAMES.index(queue)}, f"claim {claim} is looked for in another queue"
        return [(id_,) for id_ in found]

    def _job_release(self, ids, claims, _):
        for id_ in ids:
            assert self._server.rows[id_].claim in claims
            self._server.again(self._server.rows[id_])
        return [(len(ids), 0)]

    def _session_end(self, pids, _):
        for pid in pids:
            self._server.cut.pop(pid, lambda: None)()
        return [(len(pids), 0)]

    def _note(self, name, params):
        """Count a statement, and let it take its time: mostly a round trip, now and then a slow disk."""
        self.lives()
        server = self._server
        sums, dice = server.sums, server.dice.random()
        sums.statements += 1
        sums.digest = zlib.crc32(b"%s %d " % (name.encode(), server.clock.ns) + params, sums.digest)
        server.clock.pass_by(0.0003 + 0.002 * dice if dice < 0.97 else 0.03 if dice < 0.995 else 0.3)


def aside_of(blob):
    """Read the ids that a claim passes over."""
    return {number for _, number in ELEMENT.iter_unpack(blob[ARRAY_HEADER:])}
