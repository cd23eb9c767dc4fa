"""Checks of jobs that nobody will start: queues without a process, kinds without a worker, keys that discarded jobs hold.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. The statements are those that the leaders and the other commands use; counts stop at COUNT.

It deliberately tells of nothing that is paused: somebody wants that, and `fastq pauses list` shows it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fastq.admin.doctor.checks import COUNT, OK, WARN, Check, Found, Patient, counted, first_of
from fastq.admin.held import list_held
from fastq.admin.queues import list_waiting
from fastq.args.versions.names import told
from fastq.jobs.job import State

if TYPE_CHECKING:
    from collections.abc import Iterator


def _queues(patient: Patient) -> Iterator[Found]:
    found = []
    for queue, available, waiting in patient.ask("queue_unworked", COUNT):
        sorts = ((available, "available job"), (waiting, "waiting job"))
        jobs = " and ".join(counted(number, thing) for number, thing in sorts if number)
        means = "they start when a `fastq run` works the queue; is its name as you meant it?"
        found.append(
            Found(
                WARN,
                f"no living process works queue '{queue}', which has {jobs}",
                means,
                f"fastq run APP --queue {shlex.quote(queue)}",
                queue,
            )
        )
    yield from first_of(found, "queue") if found else [Found(OK, "each queue with jobs is worked, or paused")]


def _kinds(patient: Patient) -> Iterator[Found]:
    found = []
    for row in list_waiting(patient.connection, COUNT):
        if not row.known and row.paused_at is None:
            jobs = f"{counted(row.jobs, 'job')} of {told(row.kind)} {'waits' if row.jobs == 1 else 'wait'} in queue '{row.queue}'"
            means = "no living process of that queue has a worker for them; they start when one comes that has"
            found.append(
                Found(WARN, jobs, means, "fastq check APP  -- would the code that you are to deploy run them?", row.kind)
            )
    yield from first_of(found, "kind") if found else [Found(OK, "each kind with jobs that wait for a worker has one")]


def _keys(patient: Patient) -> Iterator[Found]:
    found = []
    patient.connection.execute("set local enable_bitmapscan = on")  # a discarded job is found by the archive's block ranges
    for row in list_held(patient.connection):
        if row.state is State.DISCARDED:
            means = "nothing behind it starts, until somebody retries that job, deletes it, or releases the key"
            remedy = f"fastq gates release {shlex.quote(row.gate)} {shlex.quote(row.key)}"
            told_of = f"the discarded job {row.job} holds the key {row.key} of gate '{row.gate}'"
            found.append(Found(WARN, told_of, means, remedy, f"{row.gate} {row.key}"))
    yield from first_of(found, "key") if found else [Found(OK, "no discarded job holds a key")]


CHECKS = (
    Check("queues", "are there queues with jobs that no process works?", _queues),
    Check("kinds", "do jobs wait for a worker that no process has?", _kinds),
    Check("keys", "do discarded jobs hold keys?", _keys),
)
