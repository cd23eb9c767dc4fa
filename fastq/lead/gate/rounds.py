"""Fair gates in the gatekeeper's memory: rounds over tenants, which share one room.

Made and used by the keeper (keeper.py), in the thread of the gatekeeper's track, in the supervisor that leads; that thread alone
writes these gates and tenants. A tenant is a key of the gate; all its lines, of all queues and kinds, have one turn together, and
among them the oldest job goes first, after priority.

The rounds are start-time fair queueing. Such a gate has a turn, a number that only grows: the turn of the job that was let go
last. A job that is let go moves the next turn of its tenant on by its weight, divided by the tenant's share. A tenant that
comes begins at the gate's turn, or at its own where it has used up more; the tenant with the lowest turn is next, and of
several the one with the oldest job. So in each round each tenant has its share, and a newcomer is next but for those that came
with it.

Invariants: a tenant with waiting jobs keeps its turn while the next of them are read; a tenant that is forgotten owes what it
has used up of the present round, as long as others wait. The turns are nowhere in the database: with a new term a new round
begins. They deliberately do not look at the clock, nor at priority between tenants.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from fastq.lead.gate.keys import Gate, Key

if TYPE_CHECKING:
    from fastq.args.gates import Entry
    from fastq.lead.gate.keys import Line, Place, Room

OWING = 10_000
"""Turns of forgotten tenants that are kept: of those that had jobs in this round and have none now. A guess: some 100 bytes
each, and where there are more, a tenant with jobs that come one by one may have more than its share until the round is over."""


class FairGate(Gate["Tenant"]):
    """A gate with tenants as its keys. It is the one room of all of them."""

    __slots__ = ("latest", "listed", "owing", "standing", "taken", "turn")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.taken = 0
        self.listed = False
        self.standing: list[tuple[float, Place, Tenant]] = []  # a heap; an entry may be old, each tenant has one at most
        self.turn = 0.0
        self.latest = 0.0  # the latest turn that a tenant has
        self.owing: dict[str, float] = {}  # turns of tenants that are forgotten

    def tell(self, entry: Entry) -> bool:
        """Hear how a line carries this gate; tell whether its number is another one now."""
        before, self.default = self.default, entry.at_most
        self.said = f"{entry.at_most}"
        return self.default != before

    def key(self, entry: Entry) -> Tenant:
        """Return the tenant of a line. Its share is that of the line which came last."""
        tenant = super().key(entry)
        share = entry.more[0] if entry.more else 1
        tenant.share = share if isinstance(share, int) and share > 0 else 1  # the row may have been written by any program
        return tenant

    def made(self, name: str) -> Tenant:
        """Make a tenant."""
        return Tenant(self, name, self.owing.pop(name, self.turn))

    def forget(self, key: Tenant) -> None:
        """Forget a tenant without jobs, but not that it has used up its part of the round."""
        super().forget(key)
        if key.turn > self.turn:
            self.owing[key.key] = key.turn
            if len(self.owing) > OWING:
                self.owing = {name: turn for name, turn in self.owing.items() if turn > self.turn}
                if len(self.owing) > OWING:
                    self.owing.clear()

    def head(self) -> Tenant | None:
        """Return the tenant that is next: one with a line that stands here, or that waits for its next jobs to be read."""
        while self.standing:
            turn, place, tenant = self.standing[0]
            if turn != tenant.turn:
                heapreplace(self.standing, (tenant.turn, place, tenant))
            elif not tenant.is_paused() and (tenant.oldest() is not None or tenant.is_read()):
                return tenant
            else:
                heappop(self.standing)
                tenant.in_rounds = False
        self.turn = self.latest  # nobody waits: so nobody owes anything
        self.owing.clear()
        return None

    def first(self) -> Line | None:
        """Return the line that is next."""
        head = self.head()
        return None if head is None else head.oldest()


class Tenant(Key):
    """One key of a fair gate; it takes room of the gate's."""

    __slots__ = ("in_rounds", "reads", "share", "turn")

    gate: FairGate

    def __init__(self, gate: FairGate, key: str, turn: float) -> None:
        super().__init__(gate, key)
        self.turn = turn
        self.share = 1
        self.in_rounds = False  # it has an entry among the gate's standing
        self.reads: Line | None = None  # its line with a window that has run out and is about to be read

    def room(self) -> Room:
        """Return the room that jobs of this key take."""
        return self.gate

    def oldest(self) -> Line | None:
        """Return the line of this tenant that stands here with the oldest job."""
        return super().first()

    def is_read(self) -> bool:
        """Tell whether its next jobs are about to be read."""
        return self.reads is not None and self.reads.is_empty()

    def has_room(self, weight: int) -> bool:
        """Tell whether a job of this weight may go; one that is heavier than all the room may go alone."""
        taken, at_most = self.gate.taken, self.gate.at_most
        if self.gate.paused and self.is_paused():
            return False
        return taken + weight <= at_most or (taken == 0 and weight > at_most > 0)

    def take(self, weight: int) -> None:
        """Count a job that is let go: the turn is its own, and the tenant's next one comes later."""
        gate = self.gate
        gate.taken += weight
        gate.turn = max(gate.turn, self.turn)
        self.turn = gate.turn + weight / self.share
        gate.latest = max(gate.latest, self.turn)

    def give(self, weight: int) -> None:
        """Count jobs no longer that have left; with a weight below 0, count some that were let go before."""
        self.gate.taken -= weight

    def stayed(self, line: Line, weight: int) -> None:
        """Count a job no longer that was to be let go, and has stayed: it has used up no turn."""
        self.gate.taken -= weight
        self.turn -= weight / self.share
        if self.reads is line:
            self.reads = None  # its row was locked, and it is set aside: others need not wait for it

    def put(self, line: Line) -> None:
        """Have a line stand here with its first job."""
        super().put(line)
        self.resume()

    def resume(self) -> None:
        """Take part in the rounds, if a line stands here: a tenant that was paused did not."""
        line = self.oldest()
        if line is not None and not self.in_rounds:
            self.in_rounds = True
            self.turn = max(self.turn, self.gate.turn)
            heappush(self.gate.standing, (self.turn, line.waiting[0], self))

    def passed_by(self, line: Line) -> bool:
        """Tell whether the first job of a line would go before its turn."""
        head = self.gate.head()
        if head is None:
            return False
        if head is self:
            return super().passed_by(line)
        return head.turn <= max(self.turn, self.gate.turn)

    def run_out(self, line: Line) -> None:
        """Have the first line stand here no longer, for its window is empty; the tenant keeps its turn while more is read."""
        super().run_out(line)
        self.reads = line
