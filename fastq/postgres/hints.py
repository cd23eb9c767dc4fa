"""Name the hints, which are the payloads of our notifications, and send them with statements.

A hint says where to look and orders nothing: any role of the database may send one. HINTS has them all. A statement has its hint
as a literal (sql/). The supervisor's listener takes a payload apart, and a table there says which parts hear of it.

No hint decides over the statement that it rides on.

Postgres keeps the notifications of all its databases in one queue. A session that listens and stays in a transaction keeps all
notifications since then in the queue, and any role that may connect can fill it so. While it is full, no transaction with a
notification can commit. Each statement of ours is a transaction of its own: when that is refused, nothing has happened, and the
statement is run once more without a hint. Its session then sends no hint for REST seconds, and the next statement tries again. So
while there is room a hint costs nothing more, and while there is none one statement each REST seconds is run twice. A process
that misses a hint looks by itself soon (after FASTQ_POLL_INTERVAL, a beat, a ttl).

Used by the thread that owns the session, which keeps that rest (`no_hints_until`); the clients have sessions from a pool, so they
keep it in pool/wake_limiter.py. The module's own state is one `Seldom` for the log, under a lock. With FASTQ_POLL_ONLY nobody
listens, and no hint is sent.

It deliberately does not look at the queue before it is full: that would be a statement for each statement.
"""

from __future__ import annotations

import logging
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fastq.events import Seldom, emit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.postgres.db import Connection

T = TypeVar("T")


class Hint(NamedTuple):
    """One hint: its payload is the word alone, or the word, a blank and a name."""

    word: str
    names: str  # the thing that the name after the word names; empty if nothing follows
    meaning: str


LASTS = 0.1
"""Seconds for which one hint stands for all that would follow: ten notifications a second of a busy client cost nothing to
notice, and when it has stopped, a host looks in vain for no longer than that."""

QUEUE = Hint("", "queue", "jobs of this queue are available; the payload is its name, which has no '@'")
DUE = Hint("@due", "", "a job was scheduled")
WAITING = Hint("@waiting", "queue", "jobs of this queue wait for a worker of their kind, or no longer need to")
GATE = Hint("@gate", "", "jobs wait at gates, or have made room there")
PAUSE = Hint("@pause", "", "a pause was set, or that of a kind has ended")
WORKFLOW = Hint("@workflow", "", "steps of workflows have ended, or are to be let go")
OPERATION = Hint("@operation", "", "an operator asked for an operation, or for the end of one")
CANCEL = Hint("@cancel", "", "an operator asked for the cancellation of an executing job")
PERIODIC = Hint("@periodic", "", "a periodic job was defined, paused or resumed")
LEASE = Hint("@lease", "lease", "this lease was released, or its holder was asked to resign")
STACK = Hint("@stack", "process", "an operator asks for stacks of this worker process, which is named by its number")
EVENTS = Hint("@events", "", "a program has begun to hear events, goes on to, or has ended that")
OFTEN = Hint("@often", "hint", f"for {LASTS:g} s this hint is due again and again, and a client that sends it sends no other one")

HINTS = {
    hint.word: hint
    for hint in (QUEUE, DUE, WAITING, GATE, PAUSE, WORKFLOW, OPERATION, CANCEL, PERIODIC, LEASE, STACK, EVENTS, OFTEN)
}
"""All hints by their word."""

MISSED = Hint(
    "", "", "no hint, but any may have been missed: the listener was without a connection; an empty payload says so, too"
)

REST = 5.0
"""Seconds without hints after one was refused: how often Postgres itself warns that the queue fills. A statement more in that
time is lost among thousands, and when there is room again no hint is missing for longer."""

ROOM = 0.5
"""How full the queue may be for hints to be sent again at once; beyond that Postgres warns."""

PROGRAM_LIMIT, ASYNC = "54000", "async.c"
"""How Postgres says that the queue is full: with the code for all limits of the program, such as that of a jsonb, which is a
row's fault, but from the source file of NOTIFY. The message itself may be translated."""

ADVICE = "end the session that listens in that transaction: select pg_terminate_backend(PID)"
UNKNOWN = "a role with pg_read_all_stats sees in pg_stat_activity who it is"

_seldom = Seldom()  # of the process
_lock = Lock()  # guards it: any thread may meet the full queue


def refused(error: BaseException) -> bool:
    """Tell whether a transaction was refused since the queue of notifications is full, from the exception of any library."""
    cause: Any = error
    while cause is not None:
        code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        source = getattr(getattr(cause, "diag", None), "source_file", None) or getattr(cause, "server_source_filename", None)
        if code == PROGRAM_LIMIT and source == ASYNC:
            return True
        cause = getattr(cause, "orig", None) or cause.__cause__  # SQLAlchemy and Django wrap the errors of their driver
    return False


def sending(connection: Connection, run: Callable[[str | None], T]) -> T:
    """Run a statement, a transaction of its own, with the channel of its hints; or with None where they are not to be sent."""
    if time.monotonic() < connection.no_hints_until:
        return run(None)
    try:
        return run(connection.schema)
    except Exception as error:
        if not refused(error):
            raise
        connection.no_hints_until = time.monotonic() + REST
        answer = run(None)
        full = error
    try:
        used, by = connection.run_one("hint_queue")
    except Exception as error:  # noqa: BLE001 - it was run for its effect and for the log; a broken session shows at the next statement
        used, by = 1.0, [f"unknown: {error}"]
    if tell(full, used, by):
        connection.no_hints_until = 0.0
    return answer


def tell(error: BaseException, used: float, by: Sequence[str]) -> bool:
    """Log that the queue was full, and the sessions that may keep it so; return whether there is room again since then."""
    with _lock:
        lets = _seldom.lets("full")
    if lets:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        advice = ADVICE if by else UNKNOWN
        emit(
            "hints.refused", level=logging.WARNING, error=text, used=used, rest=REST, held_by="; ".join(by) or None, advice=advice
        )
    return used < ROOM
