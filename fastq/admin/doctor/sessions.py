"""The check of the room for sessions: how many there are and may be, and how many another `fastq run` needs.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Pure judgement over one row.

It deliberately leaves out the sessions of clients and of your jobs: they come and go, and nobody has written down how many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.admin.doctor.checks import BAD, OK, WARN, Check, Found, Patient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.config import Config

OF_PROCESS, OF_SUPERVISOR, OF_LEADER = 2, 3, 5
"""Sessions of a worker process, of a supervisor, and more of one that leads: docs/deploying.md has them one by one."""

FEW = 3
"""Free sessions below which the next client may be refused: what a person with psql and two programs take."""


def needed(config: Config) -> int:
    """Return the sessions that `fastq run` needs with these settings: without singletons, progress and steps."""
    return OF_PROCESS * config.process_count + OF_SUPERVISOR - config.poll_only + (OF_LEADER if config.lead else -1)


def _connections(patient: Patient) -> Iterator[Found]:
    [(most, of_database, of_role, kept, whole, here, own, ours)] = patient.ask("doctor_connections")
    info = patient.connection.raw.info
    need = needed(patient.config)
    rooms = [
        (most - kept, whole, "the server", f"alter system set max_connections = {most + 2 * need};  -- and restart the server")
    ]
    if of_database >= 0:
        remedy = f'alter database "{info.dbname}" connection limit {of_database + 2 * need};'
        rooms.append((of_database, here, f"the database '{info.dbname}'", remedy))
    if of_role >= 0:
        remedy = f'alter role "{info.user}" connection limit {of_role + 2 * need};'
        rooms.append((of_role, own, f"the role '{info.user}'", remedy))
    limit, used, subject, remedy = min(rooms, key=lambda room: room[0] - room[1])
    found = f"{used} of {limit} sessions of {subject} are in use, {ours} of them by fastq"
    run = f"a `fastq run` with {patient.config.process_count} processes takes {need}"
    if limit - used < FEW:
        yield Found(BAD, found, "the next sessions are refused: programs do not start, and jobs wait", remedy, subject)
    elif limit - used < need:
        means = f"{run}, so another one does not fit, nor do the new programs of a deployment beside the old ones"
        yield Found(WARN, found, means, remedy, subject)
    else:
        yield Found(OK, f"{found}; {run}")


CHECKS = (Check("connections", "is there room for the sessions of another `fastq run`?", _connections, of_tables=False),)
