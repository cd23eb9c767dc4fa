"""Examine a database: ask each check in a short transaction that can only read, and put the findings together.

Run in the caller's thread, which is the main thread of `fastq doctor`, the thread that calls `client.doctor()`, one beside the
event loop of an `AsyncClient`, or a thread of the dashboard. The session is the examination's own and is closed at its end;
nothing is kept.

Invariants:
- It harms nobody: each check has a read-only transaction of its own, with limits of time for its statements and locks, and with
  plans that read indexes. Nothing of it stays in a session that a pooler shares, since all is set for the transaction alone.
- A check that may not be asked (a privilege, a pooler, a lock, a server that is too old) says so, and the others go on.

It deliberately repairs nothing: each finding has the line for a person to type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastq.admin.doctor import clock, grants, horizon, leading, pooling, server, sessions, storage, vacuuming, waits
from fastq.admin.doctor.checks import (
    BAD,
    CUT,
    LEVELS,
    LOCK_LIMIT,
    NOTE,
    OK,
    STATEMENT_LIMIT,
    Check,
    Finding,
    Found,
    Patient,
    cut_off,
)
from fastq.config import migrate_command
from fastq.errors import DatabaseUnavailable, OptionError
from fastq.postgres import db, sqlstate
from fastq.schema.migrate import current_version, migrations
from fastq.sql.pins import PINNED_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fastq.config import Config
    from fastq.postgres.db import Connection

PLANS = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit")
"""The pins of the runtime's plans: a statement about jobs reads the index that its header names, whatever the statistics say."""

BEGIN = "; ".join(
    [
        "begin isolation level read committed read only",
        "set local search_path = pg_catalog",  # first, so that nothing below is found in another schema
        f"set local statement_timeout = {int(STATEMENT_LIMIT * 1000)}",
        f"set local lock_timeout = {int(LOCK_LIMIT * 1000)}",
        *(f"set local {name} = {PINNED_SETTINGS[name]}" for name in PLANS),
    ]
)
"""The first words of each transaction, in one round trip."""


def _schema(patient: Patient) -> Iterator[Found]:
    """Compare the version of the schema with that of the program."""
    known, remedy = migrations()[-1].version, migrate_command(patient.schema)
    if patient.version is None:
        yield Found(NOTE, "this role may not read the version of the schema", "grants for each role: docs/postgres.md, Roles")
    elif patient.version == 0:
        yield Found(BAD, f"the schema '{patient.schema}' has no fastq tables", "nothing can be enqueued or worked here", remedy)
    elif patient.version < known:
        means = f"this program needs version {known}: its `fastq run` does not start, and its statements may fail"
        yield Found(BAD, f"the schema has version {patient.version}", means, remedy)
    elif patient.version > known:
        means = f"this program knows version {known}: its `fastq run` does not start"
        yield Found(BAD, f"the schema has version {patient.version}", means, "pip install --upgrade fastq-jobs")
    else:
        yield Found(OK, f"the schema has version {known}, as this program does")


SCHEMA = Check("schema", "does the schema have the version that this program knows?", _schema, of_tables=False)

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        server.CONNECTION,
        SCHEMA,
        *pooling.CHECKS,
        *sessions.CHECKS,
        *clock.CHECKS,
        *horizon.CHECKS,
        *vacuuming.CHECKS,
        server.NOTIFICATIONS,
        *storage.CHECKS,
        *leading.CHECKS,
        *waits.CHECKS,
        *grants.CHECKS,
        server.SETTINGS,
    )
}
"""All checks by name, in the order in which they are asked and told."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings of all checks that were asked, in their order."""

    schema: str
    version: int | None  # of the schema; 0: it has no tables; None: the database did not answer, or this role may not know
    level: str  # the worst of the findings
    findings: tuple[Finding, ...]


def examine(config: Config, url: str, only: Collection[str] = ()) -> Examination:
    """Ask all checks, or only those of these names."""
    chosen = _chosen(only)
    try:
        patient = _admitted(config, url)
    except (db.Error, DatabaseUnavailable) as error:
        told = f"the database does not answer: {db.first_line(error)}"
        found = Finding(server.CONNECTION.name, BAD, told, "nothing can be enqueued or worked")
        return Examination(config.schema, None, BAD, (found,))
    try:
        findings = tuple(finding for check in chosen for finding in _asked(check, patient))
    finally:
        patient.connection.close()
    worst = max((finding.level for finding in findings), key=LEVELS.index, default=OK)
    return Examination(config.schema, patient.version, worst, findings)


def _chosen(only: Collection[str]) -> Sequence[Check]:
    if unknown := sorted(set(only) - CHECKS.keys()):
        raise OptionError(f"no check is called '{unknown[0]}'; there are {', '.join(CHECKS)}")
    return [check for check in CHECKS.values() if not only or check.name in only]


def _connect(config: Config, url: str) -> Connection:
    # Nothing is pinned and nothing prepared: a pooler would refuse it, or hand it on to others.
    return db.connect(url, role="doctor", schema=config.schema, pinned=False, prepare=False, timeout=CUT)


def _admitted(config: Config, url: str) -> Patient:
    """Connect, and see which version the schema has, if this role may know."""
    connection = _connect(config, url)
    try:
        with cut_off(connection):
            version = current_version(connection)
    except db.Error as error:
        if not sqlstate.forbidden(error):
            connection.close()
            raise
        version = None
    return Patient(config, url, connection, version)


def _asked(check: Check, patient: Patient) -> list[Finding]:
    """Ask one check; an error of the database's is a finding, too."""
    if check.of_tables and patient.version == 0:
        return []
    if not patient.connection.usable:
        _connect_again(patient)
    if patient.gone is not None:
        return [_not_asked(check, patient.gone)]
    try:
        found = list(check.look(patient)) if check.alone else _in_transaction(check, patient)
    except (db.Error, DatabaseUnavailable) as error:
        return [_not_asked(check, error)]
    return [Finding(check.name, one.level, one.found, one.means, one.remedy, one.subject) for one in found]


def _connect_again(patient: Patient) -> None:
    if patient.gone is None:
        try:
            patient.connection = _connect(patient.config, patient.url)
        except DatabaseUnavailable as error:
            patient.gone = error


def _in_transaction(check: Check, patient: Patient) -> list[Found]:
    connection = patient.connection
    with cut_off(connection):
        try:
            connection.execute(BEGIN)
            return list(check.look(patient))
        finally:
            if connection.usable:
                connection.execute("rollback")


def _not_asked(check: Check, error: BaseException) -> Finding:
    told = db.first_line(error)
    if sqlstate.forbidden(error):
        means = "this role has not the privilege: ask as the owner of the schema, or with grants (docs/postgres.md, Roles)"
    elif sqlstate.too_slow(error):
        means = f"the answer would have taken longer than {STATEMENT_LIMIT:g} s, or waited for a lock: ask again later"
    elif sqlstate.undefined_schema(error):
        means = "the tables are not those that this program knows: see the check 'schema'"
    else:
        means = "the other checks go on"
    return Finding(check.name, NOTE, f"could not be asked: {told}", means, asked=False)
