"""Steward: lead workflows on when their steps have ended.

A chore of the schema's leader, run in its track's thread of the supervisor that leads; the gatekeeper runs in the same track. The
`Steward` alone reads and writes its attributes: the workflows that were locked, those with jobs to let go, and how far it has
come in the log and in the audit. All of them can be found again in the tables, so a new leader goes on where another one was
killed. Its connection belongs to the track, whose thread runs the gatekeeper and the pauses on it, too: each transaction of the
steward ends before `run` returns.

It is told by a log: each statement that ends a step appends an event, with the state and the output, so nothing is ever
looked up in a job that is gone. One transaction takes events, writes the states of their steps, decides over the steps after
them (resolving.py), counts, and enqueues callbacks: all of that happens once, also where a leader dies. It touches no job. A
second statement lets the jobs go, or cancels them, that the steps' fates say; a cancellation appends an event again. It is
woken by the hint '@workflow'.

Invariants: it locks a workflow's row before it reads its edges, as do clients that add steps; a workflow or a job that somebody
else has locked is passed over, and tried again soon.

An audit, now and then, finds steps that would wait for ever, repairs them, and reports them as the bug that each of them is. The
chore deliberately knows no order of jobs beyond the edges: a job that is let go waits at its gates, or for its time, as any
other.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import msgspec

from fastq.events import emit
from fastq.jobs.retention import Retention
from fastq.lead.term.chore import block_ranges, transaction
from fastq.lead.workflow.resolving import read_edges, read_turned, resolve
from fastq.postgres import hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.lead.term.chore import Site
    from fastq.lead.workflow.resolving import Turned

EVENTS = 1_000
"""Events of one transaction: some 30 ms, in which the gatekeeper of the same track waits. A guess."""

JOBS = 1_000
"""Jobs that one statement lets go or cancels: the same."""

AUDIT, WINDOW, NAP = 60.0, 5_000, 0.05
"""Seconds between two audits at least; steps that one statement of it looks at; and seconds between two of these. Guesses: each
step is looked up with its job and its edges, some 10 us."""

REST = 30.0
"""Times the length of an audit that no other follows it: a thirtieth of the thread's time."""

PRUNE = 600.0
"""Seconds between two looks for workflows that are old enough to be deleted: they are kept for days."""

RECORD = "\x1e"
"""The character that joins the queues to be woken, in the parameter of a statement."""

AGAIN = 0.05
"""Seconds between two looks at the whole log at least: so long a step waits if its event was committed late. As for gates."""

SHARE = 3.0
"""Times the length of such a look that no other follows it: at most a quarter of the thread's time, as for gates."""

LOCKED = 0.2
"""Seconds until a workflow is tried again that somebody else had locked."""

IDLE, IDLE_POLLING = 10.0, 0.1
"""Seconds until the next run when nothing is known to be due, and the same without LISTEN: the figures of the gatekeeper."""

_ended = msgspec.json.Decoder(list[tuple[int, str, int, int, int]]).decode
_cancelled = msgspec.json.Decoder(list[tuple[int, int]]).decode
_repaired = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


class Steward:
    """The chore."""

    name = "workflow"

    def __init__(self) -> None:
        self._aside: dict[int, float] = {}  # workflows that were locked, and when to try them again (monotonic); in this order
        self._fated: set[int] = set()  # workflows with steps of which the jobs are to be let go or cancelled
        self._front = 0  # the highest id of an event that was read
        self._whole = False  # the last look was at the whole log, and found all
        self._again_at = 0.0  # monotonic: when to look at all of it again
        self._audited = (0, -1)  # workflow and step up to which the audit has come
        self._audit_at = time.monotonic() + AUDIT  # when the audit begins, or goes on
        self._audit_began = 0.0  # monotonic
        self._prune_at = 0.0  # monotonic: when to look for old workflows

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Take some events, and act by the fates of some steps."""
        now = time.monotonic()
        waiting = {workflow: due for workflow, due in self._aside.items() if due > now}
        if len(waiting) < len(self._aside):
            self._aside, self._again_at = waiting, 0.0
        whole = now >= self._again_at
        taken = self._take(site, whole=whole)
        if whole:
            self._fated |= {*site.connection.run_one("workflow_fated", list(self._aside), JOBS)[0]}
            took = time.monotonic() - now
            self._again_at = now + took + max(AGAIN, SHARE * took)
        if self._go(site) or taken:
            return 0.0
        if now >= self._audit_at:
            self._audit(site)
        if now >= self._prune_at:
            self._prune(site)
        return self._idle(site)

    def end(self, site: Site, reason: str) -> None:
        """Leave nothing: all that it knows is in the tables."""

    def _idle(self, site: Site) -> float:
        """Return how long to rest; a hint ends it, which may be for an event that only a look at the whole log finds."""
        now = time.monotonic()
        dues = [self._audit_at, self._prune_at, *list(self._aside.values())[:1]]
        if not self._whole:
            dues.append(self._again_at)
        return max(0.0, min(IDLE_POLLING if site.config.poll_only else IDLE, *(due - now for due in dues)))

    def _take(self, site: Site, *, whole: bool) -> int:
        """Take events, all in one transaction; return how many."""
        with transaction(site):
            since = 0 if whole else self._front
            heard, highest, locked, gone, others = site.write("workflow_hold", list(self._aside), EVENTS, since)
            self._whole = whole and heard < EVENTS
            self._put_aside(others)
            if not locked and not gone:
                self._front = max(self._front, highest)
                return int(heard == EVENTS)
            taken, found, counted = site.connection.run_one("workflow_take", [*locked, *gone], EVENTS)
            turned = read_turned(found) if found else []
            if turned:
                self._resolve(site, turned)
            ended, wakes = site.connection.run_one("workflow_end", counted)
        if wakes:  # after the commit: no hint decides over a transaction
            hints.sending(
                site.connection, lambda channel: site.connection.run("wake", channel, RECORD.join(wakes)) if channel else None
            )
        self._front = max(self._front, highest)
        for workflow, name, completed, cancelled, discarded in _ended(ended) if ended else []:
            emit("workflow.ended", id=workflow, name=name, completed=completed, cancelled=cancelled, discarded=discarded)
        site.changed += int(taken)
        return int(taken)

    def _resolve(self, site: Site, turned: Sequence[Turned]) -> None:
        """Decide over the steps after those that have turned."""
        columns = zip(*((step.workflow, step.step, step.fails) for step in turned), strict=True)
        (found,) = site.connection.run_one("workflow_reach", *(list(column) for column in columns))
        if found and (decided := resolve(turned, read_edges(found))):
            site.connection.run("workflow_resolve", *(list(column) for column in zip(*decided, strict=True)))
            self._fated |= {step.workflow for step in decided if step.fate is not None}

    def _go(self, site: Site) -> bool:
        """Let jobs go, and cancel others, as the fates of their steps say; tell whether there may be more of them now."""
        fated = list(self._fated - self._aside.keys())
        if not fated:
            return False
        ready, gone, told, locked, _ = hints.sending(
            site.connection, lambda channel: site.write("workflow_go", JOBS, channel, fated)
        )
        cancelled = _cancelled(told) if told else []
        for workflow, steps in cancelled:
            emit("workflow.steps_cancelled", id=workflow, steps=steps)
        site.changed += gone + sum(steps for _, steps in cancelled)
        self._put_aside(locked)
        if ready < JOBS:
            self._fated.clear()  # others, which are aside, are found by a look at all of them
        return bool(ready == JOBS or cancelled)  # each of these has told of its end

    def _put_aside(self, workflows: Sequence[int]) -> None:
        until = time.monotonic() + LOCKED
        self._aside |= dict.fromkeys(workflows, until)

    def _audit(self, site: Site) -> None:
        """Look at the next steps of open workflows; repair those that would wait for ever."""
        began = time.monotonic()
        if self._audited == (0, -1):
            self._audit_began = began
        with block_ranges(site):
            workflow, step, looked, found = site.write("workflow_audit", *self._audited, WINDOW)
        for of, number, job in _repaired(found) if found else []:
            emit("workflow.repaired", level=logging.ERROR, id=of, step=number, job=job)
        now = time.monotonic()
        if looked == WINDOW:
            self._audited, self._audit_at = (workflow, step), now + NAP
            return
        self._audited, self._audit_at = (0, -1), now + max(AUDIT, REST * (now - self._audit_began))

    def _prune(self, site: Site) -> None:
        """Delete workflows that have ended longer ago than any of their jobs is kept."""
        days = Retention.parse(site.config.keep).whole_days(site.config.archive_days)
        (pruned,) = site.write("workflow_prune", days, WINDOW)
        site.changed += pruned
        self._prune_at = time.monotonic() + (NAP if pruned else PRUNE)
