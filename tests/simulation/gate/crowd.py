"""All who write jobs while the gatekeeper works: programs that enqueue, workers, the rescuer, the promoter, an operator.

Each change is a transaction of the model: it takes numbers in the log and locks rows when its statement runs, and is seen by
others when it commits, which may be late, or never. Which ones there are, and when, is drawn from the seed.
"""

import msgspec

from tests.simulation.gate.server import EVERY, Row

QUEUES = ["default", "mail"]
ATTEMPTS = 4  # after so many a job is done


class Crowd:
    """Everybody but the leaders."""

    def __init__(self, world):
        self.world, self.server, self.schedule = world, world.server, world.schedule
        self.dice, self.weather, self.clock = world.dice, world.weather, world.clock
        self.kinds = [self._kind() for _ in range(self.dice.randint(1, 4))]
        self.ended = []  # rows that have run, and are to be written
        self.busy = 0  # changes under way: transactions that are open, and what is planned for rows
        self.server.offered = self.offer
        self.away_until = 0  # ns: no process claims before then

    def _kind(self):
        """Draw a kind: the gates that its jobs go through, each with its number, how many keys it has, and weights."""
        dice = self.dice
        names = dice.sample(range(self.weather.gates), dice.choice([1, 1, min(2, self.weather.gates), self.weather.gates]))
        paces = dice.sample(self.weather.paces, dice.randint(0, len(self.weather.paces)))
        if paces and dice.random() < 0.5:
            names = []
        return paces, [
            (f"g{name}", dice.choice(self.weather.numbers[name]), self.weather.keys[name], dice.choice([(1,), (1,), (1, 2, 7)]))
            for name in names
        ]

    def start(self):
        for _ in range(3):
            self.schedule.after(self.dice.random() * 0.1, self.write)
        self.schedule.after(self.dice.random(), self.operate)
        if self.weather.paces:
            self.schedule.after(self.dice.random(), self.go_away)
            self.schedule.after(self.dice.random(), self.spend)

    def go_away(self):
        """Have no process there for a while: jobs that are let go start later, all at once."""
        if self.clock.ns < self.world.writes_until:
            self.away_until = self.clock.ns + int(self.dice.choice([0.05, 0.5, 2.0]) * self.dice.random() * 1e9)
            self.schedule.after(self.dice.expovariate(2.0), self.go_away)

    def spend(self):
        """Start something beside the jobs that counts at a rate."""
        if self.clock.ns < self.world.writes_until:
            pace, transaction = self.dice.choice(self.weather.paces), self.server.begin()
            key, weight = f'"{self.dice.randint(1, pace.keys)}"', self.dice.choice([1, 1, 3])
            gates = msgspec.json.encode([pace.entry(key, weight)]).decode()
            self.server.tell_spent(transaction, gates, self.clock.ns)
            self.after(self.dice.random() * 0.05, lambda: self.end(transaction, self.server.commit, True))
            self.schedule.after(self.dice.expovariate(1.0), self.spend)

    # transactions

    def transact(self, *, came=(), freed=(), limited=((), 0), changes=(), late=False, undone=0.0, hinted=True):
        """Run a statement and commit it, after a while if it is late, or roll it back."""
        dice, server = self.dice, self.server
        transaction = server.begin()
        server.lock(transaction, [row for _, rows in changes for row in rows])
        server.tell_came(transaction, came)
        server.tell_freed(transaction, [row for row in freed if row.admitted])
        server.tell_limited(transaction, *limited)
        transaction.changes.extend(changes)
        end = server.roll_back if dice.random() < undone else server.commit
        open_for = dice.random() * self.weather.late if late else dice.choice([0, 0, 0.001, 0.05]) * dice.random()
        self.after(open_for, lambda: self.end(transaction, end, hinted))

    def end(self, transaction, end, hinted):
        end(transaction)
        if hinted and transaction.events and self.dice.random() >= self.weather.lost_hints:
            self.world.hint()

    def after(self, seconds, call):
        """Plan something that must have happened before all is quiet."""
        self.busy += 1

        def run():
            self.busy -= 1
            call()

        self.schedule.after(seconds, run)

    # programs that enqueue

    def write(self):
        """Insert jobs in one transaction or several statements of it, commit it or roll it back; then come again."""
        dice, server, weather = self.dice, self.server, self.weather
        if self.clock.ns >= self.world.writes_until:
            return
        transaction = server.begin()
        for _ in range(dice.choice([1, 1, 2])):
            self.after(dice.choice([0, 0, dice.random() * 0.2]), lambda: self.insert(transaction, self.rows()))
        open_for = dice.choice([0, 0, 0.001, dice.random() * weather.late])
        end = server.roll_back if dice.random() < 0.1 else server.commit
        self.after(0.2 + open_for, lambda: self.end(transaction, end, True))
        self.schedule.after(dice.expovariate(weather.rate), self.write)

    def insert(self, transaction, rows):
        server = self.server
        later = [row for row in rows if self.dice.random() < 0.1]
        now = [row for row in rows if row not in later]
        server.tell_came(transaction, now)
        transaction.changes += [(server.show, rows), (server.wait, now), (self.put_off, later)]

    def rows(self):
        dice, server = self.dice, self.server
        kind, queue, same = dice.choice(self.kinds), dice.choice(QUEUES[: self.weather.queues]), dice.random() < 0.5
        carried, rows = self._carried(kind), []
        for _ in range(min(self.weather.burst, dice.choice([1, 1, 2, 5, self.weather.burst]))):
            server.ids += 1
            gates, needs, paces, keys = carried if same else self._carried(kind)
            keeps = gates.startswith('[["order"')
            rows.append(Row(server.ids, queue, dice.choice([1, 1, 2, 4]), gates, needs, paces, keys, keeps))
        return rows

    def _carried(self, kind):
        """Draw keys; return what a job carries in its meta, as text, and the same for the model."""
        dice, (paces, gates) = self.dice, kind
        found = [(name, f'"{dice.randint(1, keys)}"', dice.choice(weights), number) for name, number, keys, weights in gates]
        if self.world.sort != "limit":  # g0 is of another sort, and stands first
            found = sorted((name, key, 1 if name == "g0" else weight, number) for name, key, weight, number in found)
        entries, needs = [], []
        for name, key, weight, number in found:
            sort = self.world.sort if name == "g0" else "limit"
            share = [[len(key) + ord(key[1]) % 3]] if sort == "fair" else []
            entries.append([sort, name, msgspec.Raw(key.encode()), weight, 1 if sort == "order" else number, *share])
            needs.append(((name, EVERY if sort == "fair" else key.encode()), weight))
        keys = tuple((name, key.encode()) for name, key, *_ in found)
        rates = [(pace, f'"{dice.randint(1, pace.keys)}"', dice.choice([1, pace.heaviest])) for pace in paces]
        entries += [pace.entry(key, weight) for pace, key, weight in rates]
        passes = tuple(((pace.name, key.encode()), weight) for pace, key, weight in rates)
        return msgspec.json.encode(entries).decode(), tuple(needs), passes, keys

    # what becomes of a job

    def put_off(self, row):
        """Let a job be due later, and count no longer, unless it is in order."""
        if not row.keeps:
            self.server.free(row)
        row.state, row.due = "scheduled", self.clock.ns + int(self.dice.random() * 1e9)
        self.after((row.due - self.clock.ns) / 1e9 + self.dice.choice([0.001, 0.1]), lambda: self.promote(row.due))

    def promote(self, due):
        """Do what the chore does: make all jobs wait that are due, and do not yet."""
        rows = [
            row for row in self.server.rows.values() if row.state == "scheduled" and row.due <= self.clock.ns and not row.locked
        ]
        if rows:
            waits = [row for row in rows if not row.admitted]
            keeps = [row for row in rows if row.admitted]
            self.transact(came=waits, changes=[(self.server.wait, waits), (self.server.available, keeps)])
        if any(row.state == "scheduled" and row.due <= due and row.locked for row in self.server.rows.values()):
            self.after(0.1, lambda: self.promote(due))

    def offer(self, row):
        self.after(self.dice.expovariate(1 / self.weather.busy), lambda: self.claim(row))

    def claim(self, row):
        if row.state != "available":
            return
        if self.clock.ns < self.away_until:
            self.after((self.away_until - self.clock.ns) / 1e9, lambda: self.claim(row))
            return
        if row.locked:
            self.offer(row)
            return
        row.state, row.attempts, row.claimed_at = "running", row.attempts + 1, self.clock.ns
        if row.starts:  # it starts again without a word if it is handed back or its process dies: that is not promised
            row.starts = False
            self.server.ledger.start(row)
        self.after(self.dice.expovariate(1 / self.weather.busy), lambda: self.ran(row))

    def ran(self, row):
        if not self.ended:
            self.after(0.02 * self.dice.random(), self.write_ends)
        self.ended.append(row)

    def write_ends(self):
        """Write what has become of jobs, in a statement for each fate, as the completer does."""
        fates = {}
        for row in self.ended:
            fates.setdefault(self.fate(row), []).append(row)
        self.ended = []
        for fate, rows in fates.items():
            fate(rows)

    def fate(self, row):
        dice = self.dice.random()
        if row.attempts >= ATTEMPTS or dice > self.weather.trouble:
            return self.finish_silently if self.dice.random() < self.weather.old_program else self.finish
        return self.dice.choice([self.again, self.delay, self.rest, self.kill, *[self.exceed] * bool(row.paces)])

    def finish(self, rows):
        self.transact(freed=rows, changes=[(self.server.finish, rows)], late=self.dice.random() < 0.1)

    def finish_silently(self, rows):
        """End jobs as a program does that knows no gates."""
        self.server.sums.silent += sum(row.admitted for row in rows)
        self.transact(changes=[(self.server.finish_without_a_word, rows)])

    def again(self, rows):
        self.transact(changes=[(self.server.available, rows)])

    def delay(self, rows):
        self.transact(freed=[row for row in rows if not row.keeps], changes=[(self.put_off, rows)])

    def exceed(self, rows):
        """Have jobs wait again that found a rate exceeded, and their keys be held up."""
        until = self.clock.ns + int(self.dice.random() * 1e9)

        def leave(row):
            self.server.free(row)
            self.server.wait(row)

        self.transact(changes=[(leave, rows)], limited=(rows, until))

    def rest(self, rows):
        """Have jobs wait for a worker; they count at their gates meanwhile."""

        def rests(row):
            row.state = "resting"
            self.after(self.dice.random(), lambda: self.rested(row))

        self.transact(changes=[(rests, rows)])

    def rested(self, row):
        if row.state == "resting" and row.locked:
            self.after(0.1, lambda: self.rested(row))
        elif row.state == "resting":
            self.transact(changes=[(self.server.available, [row])])

    def kill(self, rows):
        """Lose the workers; somebody finds that out later, and gives the jobs back, puts them apart, or ends them."""
        self.after(self.dice.random(), lambda: self.dice.choice([self.again, self.delay, self.finish])(rows))

    # an operator

    def operate(self):
        dice, server = self.dice, self.server
        if self.clock.ns >= self.world.writes_until:
            return
        if dice.random() < 0.3:
            name = dice.randrange(self.weather.gates)
            server.values[f"g{name}"] = dice.choice([0, 1, 2, 5, 20])
            if dice.random() < 0.3:
                server.values.pop(f"g{name}")
        if dice.random() < 0.2:
            name = dice.randrange(self.weather.gates)
            server.paused ^= {(f"g{name}", dice.choice(["", f'"{dice.randrange(self.weather.keys[name])}"']))}
        held, undone = dice.random() < self.weather.holds, dice.choice([0, 0, 0.5])
        {"end": self.end_jobs, "rerun": self.rerun}[dice.choice(["end", "end", "rerun"])](held, undone)
        self.schedule.after(dice.expovariate(self.weather.orders), self.operate)

    def some(self, rows, states):
        """Draw rows that nobody has locked; often from the oldest, which the gatekeeper is about to let go."""
        found = [row for row in rows.values() if row.state in states and not row.locked]
        oldest = sorted(found, key=lambda row: row.place)[: self.dice.choice([3, 8, len(found)])]
        return self.dice.sample(oldest, min(len(oldest), self.dice.choice([1, 2, 5])))

    def end_jobs(self, held, undone):
        """Cancel or delete jobs; who deletes sends no hint."""
        rows = self.some(self.server.rows, ("waiting", "available", "scheduled", "resting"))
        hinted = self.dice.random() < 0.5
        self.transact(freed=rows, changes=[(self.server.finish, rows)], late=held, undone=undone, hinted=hinted)

    def rerun(self, held, undone):
        """Make jobs due at once: those that are scheduled, wait at gates or for a worker, and those that have ended."""
        server = self.server
        living = self.some(server.rows, ("waiting", "scheduled", "resting"))
        ended = self.some(server.archive, ("gone",))
        admitted = [row for row in living if row.admitted]
        come = [row for row in living if not row.admitted] + ended
        changes = [(server.show, ended), (server.wait, come), (server.available, admitted)]
        self.transact(came=come, changes=changes, late=held, undone=undone)
