"""The check of the way to the server: whether a pooler is in between, and for how long it gives a session of the server's.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), with sessions of its own, which are closed before
it returns. It tries and does not guess: the server's own number of a session is compared with the one that the client was told
when it connected, since a pooler makes one up; two sessions are asked in turns which of the server's they are; a transaction is
begun; and a session is begun as `fastq run` begins its own.

Invariant: nothing is set or prepared that would stay in a session which others use, too. It deliberately does not ask the console
of the pooler: its address, its users and its words differ from pooler to pooler.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from fastq.admin.doctor.checks import BAD, CUT, NOTE, OK, Check, Found, Patient, cut_off
from fastq.errors import DatabaseUnavailable
from fastq.postgres import db, pooler
from fastq.postgres.urls import POOLER_ADVICE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.postgres.db import Connection

NONE, SESSION, TRANSACTION, STATEMENT = "none", "session", "transaction", "statement"
"""The ways of pooling, by what a client has a session of the server's for."""


def _pooler(patient: Patient) -> Iterator[Found]:
    mode = mode_of(patient)
    known = patient.config.poll_only
    if mode == STATEMENT:
        means = "fastq migrate, enqueue_copy and leaders need transactions, which a pooler then refuses"
        yield Found(BAD, "pooling by the statement", means, "in the pooler: pool_mode = transaction, and FASTQ_POLL_ONLY=1", mode)
    elif known and mode == NONE:
        means = f"nobody listens, so a job at an idle queue waits up to {patient.config.poll_interval:g} s, for nothing"
        yield Found(NOTE, "no pooler is in between, and FASTQ_POLL_ONLY is set", means, "unset FASTQ_POLL_ONLY", mode)
    elif known or mode == NONE:
        what = "no pooler is in between" if mode == NONE else f"pooling by the {mode}, which FASTQ_POLL_ONLY is for"
        yield Found(OK, what, subject=mode)
    elif why := "sessions are shared" if mode == TRANSACTION else _refused(patient):
        means = f"{why}: `fastq run` does not start, and prepared statements of clients are lost"
        yield Found(BAD, f"pooling by the {mode}", means, POOLER_ADVICE, mode)
    else:
        yield Found(OK, "pooling by the session, which lets the settings of our sessions pass", subject=mode)


def mode_of(patient: Patient) -> str:
    """Find out the way of pooling."""
    with closing(_open(patient)) as first, closing(_open(patient)) as second, cut_off(first), cut_off(second):
        if not _begins(first):
            return STATEMENT
        if pooler.shared(first, second):
            return TRANSACTION
        return SESSION if _server_pid(first) != first.backend_pid else NONE


def _open(patient: Patient) -> Connection:
    return db.connect(patient.url, role="doctor", schema=patient.schema, pinned=False, prepare=False, timeout=CUT)


def _begins(connection: Connection) -> bool:
    """Tell whether a transaction can be begun."""
    try:
        connection.execute("begin read only")
        connection.execute("rollback")
    except db.Error:
        return False
    return True


def _server_pid(connection: Connection) -> int:
    [(pid,)] = connection.execute("select pg_catalog.pg_backend_pid()")
    return int(pid)


def _refused(patient: Patient) -> str | None:
    """Say why a session cannot begin as those of `fastq run` do; None if it can."""
    try:
        with closing(db.session(patient.config, patient.url, "doctor")) as session, cut_off(session):
            return pooler.unpinned(session)
    except DatabaseUnavailable as error:
        return f"it answers '{error}'"


CHECKS = (Check("pooler", "is a pooler in between, and which sessions does it give?", _pooler, of_tables=False, alone=True),)
