"""Checks of the work of leaders: whether somebody leads, chores succeed, and jobs that are due are made available.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Pure judgement over some rows. `fastq leader` shows the same rows whole.

It deliberately asks no leader to resign, and starts none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.admin import leaders
from fastq.admin.doctor.checks import BAD, COUNT, NOTE, OK, WARN, Check, Found, Patient, counted, first_of, lasted

if TYPE_CHECKING:
    from collections.abc import Iterator

LATE, TOO_LATE = 30.0, 300.0
"""Seconds after its time that a job is not yet available. A leader makes jobs available within milliseconds, and a new leader is
elected within ten seconds (FASTQ_LEASE_TTL)."""

DOMAIN = "leader:"

LED = {"leader": "any queue", "schema": "the schema"}
"""The two sorts of leases, by the first word of their names, and what their holders look after."""


def _leader(patient: Patient) -> Iterator[Found]:
    leases = leaders.list_leases(patient.connection)
    held = [lease for lease in leases if lease.held and (lease.name == "schema" or lease.name.startswith(DOMAIN))]
    [(living, hosts)] = patient.ask("doctor_processes")
    led = {lease.name.partition(":")[0] for lease in held}
    working = f"{counted(living, 'worker process', 'worker processes')} on {counted(hosts, 'host')}" if living else "nobody works"
    if missing := LED.keys() - led:
        level = BAD if living else WARN
        means = "delayed jobs, retries, periodic jobs and jobs at gates wait until a `fastq run` without FASTQ_LEAD=off leads"
        remedy = "fastq run APP"
        whom = " or ".join(sorted(LED[name] for name in missing))
        yield Found(level, f"nobody leads {whom}; {working}", means, remedy)
    elif not living:
        yield Found(NOTE, "somebody leads, and nobody works", "jobs wait", "fastq run APP")
    else:
        yield Found(OK, f"{', '.join(lease.name for lease in held)} are led; {working}")


def _chores(patient: Patient) -> Iterator[Found]:
    found = []
    for chore in leaders.list_chores(patient.connection):
        if chore.error:
            told = f"the chore {chore.name} of {chore.lease} failed when it ran last: {chore.error}"
            found.append(Found(WARN, told, "it is tried again", "fastq leader", chore.name))
    yield from (first_of(found, "chore") if found else [Found(OK, "no chore failed when it ran last")])


def _due(patient: Patient) -> Iterator[Found]:
    found = []
    for queue, jobs, since in patient.ask("doctor_due", COUNT):
        if since >= LATE:
            told = f"queue '{queue}' has {counted(jobs, 'job')} whose time has come, the first {lasted(since)} ago"
            means = "the chore `promote` of the queue's leader should have made them available: does it run, does it fail?"
            found.append(Found(BAD if since >= TOO_LATE else WARN, told, means, "fastq leader", queue))
    yield from first_of(found, "queue") if found else [Found(OK, "jobs that are due have been made available")]


CHECKS = (
    Check("leader", "does anybody lead, and does anybody work?", _leader),
    Check("chores", "did the last run of each chore succeed?", _chores),
    Check("due", "are jobs made available when their time has come?", _due),
)
