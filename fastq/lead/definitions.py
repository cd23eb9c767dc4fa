"""Write declarations to the database, where any leader finds them: those of periodic jobs. Say which ones a process declares.

Run in the main thread of `fastq run`, before its supervisor starts. It keeps nothing: a definition is a row of the table
`periodic`, and the leader's chore goes by that (chores/periodic.py). A schedule ticks while some living process declares its name
(`process.periodic`): taken out of the code it ends with the last process that has the old code, and a leader that does not know
it holds it up no more than one that does.

Invariant: a definition that is in the database as it is in the code is not touched, however often programs start; so neither its
pause nor its pending tick depends on deployments. Programs that differ each write their own when they start: the last one holds,
and the leader reports the difference (`periodic.differs`). It deliberately removes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.jobs.periodic import PeriodicJob
from fastq.postgres import hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastq.jobs.declaration import Declaration
    from fastq.jobs.registry import Registry
    from fastq.postgres.db import Connection


def define(connection: Connection, registry: Registry) -> list[str]:
    """Write each declaration that is new or has changed, of the sorts that the database knows; return the names."""
    return [name for sort in registry.sorts() if sort in WRITERS for name in WRITERS[sort](connection, registry.declared(sort))]


def _define_periodics(connection: Connection, declared: Mapping[str, Any]) -> list[str]:
    periodics: Mapping[str, PeriodicJob] = declared
    now = connection.run_one("clock_after", 0.0)[0]
    rows = []
    for name, job in sorted(periodics.items()):
        spec = job.spec()
        when = (name, str(job.schedule), job.schedule.tz, job.missed, job.backfill, job.hash)
        what = (spec.kind, job.args.decode(), spec.queue, spec.priority, spec.max_attempts, spec.tags, spec.meta)
        rows.append((*when, *what, job.schedule.next_after(now), job.run_on_start))
    columns = [list(column) for column in zip(*rows, strict=True)]
    changed = hints.sending(connection, lambda channel: connection.run("periodic_define", *columns, channel))
    for name, new, _ in changed:
        emit("periodic.defined", name=name, schedule=str(periodics[name].schedule), new=new)
    return [name for name, _, _ in changed]


WRITERS: Mapping[type[Declaration], Callable[[Connection, Mapping[str, Any]], list[str]]] = {PeriodicJob: _define_periodics}
"""How the declarations of a sort are written: given all of them by name, it returns the names of those that it wrote."""


def declared(registry: Registry) -> list[str]:
    """Return each definition as NAME=HASH, for the row of a process."""
    return [f"{name}={job.hash}" for name, job in sorted(registry.periodics.items())]
