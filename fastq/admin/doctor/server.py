"""Checks of the server: whether it takes writes, how full its queue of notifications is, and which settings contradict fastq's.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Pure judgement over a few rows. The settings of this environment (FASTQ_*) are judged here, too, since a
contradiction has two sides.

It deliberately looks at no setting that the sessions of `fastq run` pin for themselves, unless a pooler keeps them from it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.doctor.checks import BAD, NOTE, OK, WARN, Check, Found, Patient
from fastq.environment import unknown_variables
from fastq.jobs.retention import Retention
from fastq.schema.migrate import OLDEST_POSTGRES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.config import Config

FULL, FILLS = 0.5, 0.05
"""Shares of the queue of notifications: Postgres itself warns from the first one on; in an idle server the share is 0."""

TOO_SHORT = 1.0
"""Seconds of a role's statement_timeout below which it may end claims: a claim on a busy server takes tenths of a second."""


def _connection(patient: Patient) -> Iterator[Found]:
    info = patient.connection.raw.info
    place = info.host if info.host.startswith("/") else f"{info.host}:{info.port}"
    version = info.server_version // 10_000
    here = f"Postgres {version}.{info.server_version % 10_000}, database {info.dbname} at {place} as {info.user}"
    [(standby,)] = patient.connection.ask("select pg_is_in_recovery()")
    if version < OLDEST_POSTGRES:
        yield Found(BAD, here, f"fastq needs Postgres {OLDEST_POSTGRES} or later")
    elif standby:
        yield Found(BAD, f"{here}, which is a standby", "jobs can be read there, and neither enqueued nor worked")
    else:
        yield Found(OK, here)


def _notifications(patient: Patient) -> Iterator[Found]:
    [(used, sessions)] = patient.ask("hint_queue")
    share = f"{100 * used:.0f} % of the queue of notifications are used"
    if used < FILLS:
        yield Found(OK, share)
        return
    means = "a session listens and stays in a transaction; when the queue is full, your transactions that enqueue are refused"
    pids = [pid for told in sessions for pid in re.findall(r"^pid (\d+)", told)]
    remedy = f"select pg_terminate_backend({pids[0]});" if pids else ""
    oldest = f"; in a transaction for longest: {sessions[0]}" if sessions else ""
    yield Found(BAD if used >= FULL else WARN, share + oldest, means, remedy)


class _Value(NamedTuple):
    """A setting of the server's, as a new session has it."""

    name: str
    value: str
    unit: str
    source: str

    @property
    def seconds(self) -> float:
        """Return a setting that is a time."""
        return float(self.value) * {"ms": 0.001, "s": 1.0, "min": 60.0}.get(self.unit, 1.0)


Judge = "Callable[[_Value, Patient], Found | None]"


def _off(level: str, means: str) -> Callable[[_Value, Patient], Found | None]:
    """Judge a setting that should be on."""

    def judge(value: _Value, patient: Patient) -> Found | None:
        return Found(level, f"{value.name} is off", means, _set(value, "on", patient)) if value.value == "off" else None

    return judge


def _read_only(value: _Value, patient: Patient) -> Found | None:
    means = "fastq does not write either, and waits until that is off: nothing is enqueued or worked"
    return Found(BAD, f"{value.name} is on", means, _set(value, "off", patient)) if value.value == "on" else None


def _forgotten(value: _Value, patient: Patient) -> Found | None:
    means = "a transaction that a program forgets stays open for ever, and keeps the dead rows of every table"
    found = f"{value.name} is 0: no limit"
    return None if value.seconds else Found(NOTE, found, means, _set(value, "'10min'", patient))


def _limit(value: _Value, patient: Patient) -> Found | None:
    """Judge the role's time limit where a pooler keeps us from setting our own."""
    ours = patient.config.statement_timeout
    remedy = _set(value, f"'{0.9 * ours:g}s'", patient)
    if not patient.config.poll_only or TOO_SHORT <= value.seconds <= ours:
        return None
    if not value.seconds or value.seconds > ours:
        means = f"a statement that fastq gives up after {ours:g} s goes on in the server, with one of the pooler's connections"
        return Found(NOTE, f"{value.name} is {value.seconds:g} s (0: none), and a pooler is in between", means, remedy)
    means = "a pooler is in between, so fastq cannot set its own limit, and claims and completions may be ended"
    return Found(WARN, f"{value.name} is {value.seconds:g} s", means, remedy)


def _idle(value: _Value, patient: Patient) -> Found | None:
    if not patient.config.poll_only or not value.seconds:
        return None
    means = "a pooler is in between, so fastq cannot set its own; its sessions are ended now and then, and made anew"
    return Found(NOTE, f"{value.name} is {value.seconds:g} s", means, _set(value, "0", patient))


def _isolation(value: _Value, patient: Patient) -> Found | None:
    if not patient.config.poll_only or value.value == "read committed":
        return None
    means = (
        "a pooler is in between, so fastq cannot set its own: its statements fail where they meet each other, and are repeated"
    )
    return Found(WARN, f"{value.name} is '{value.value}'", means, _set(value, "'read committed'", patient))


JUDGES: dict[str, Callable[[_Value, Patient], Found | None]] = {
    "fsync": _off(BAD, "a crash of the machine may destroy the database, and all jobs in it"),
    "full_page_writes": _off(WARN, "a crash of the machine may tear pages of the tables"),
    "synchronous_commit": _off(
        WARN, "a crash of the server loses the jobs of its last moments, though their enqueues were confirmed"
    ),
    "default_transaction_read_only": _read_only,
    "idle_in_transaction_session_timeout": _forgotten,
    "statement_timeout": _limit,
    "idle_session_timeout": _idle,
    "default_transaction_isolation": _isolation,
}
"""How each setting of the server's is judged."""


def _settings(patient: Patient) -> Iterator[Found]:
    found = []
    for row in patient.ask("doctor_settings", list(JUDGES)):
        value = _Value(*row)
        if judged := JUDGES[value.name](value, patient):
            found.append(Found(judged.level, judged.found, judged.means, judged.remedy, value.name))
    found += _environment(patient.config)
    yield from found or [Found(OK, "the settings of the server and of this environment go together")]


def _environment(config: Config) -> Iterator[Found]:
    """Judge the settings of this environment by each other."""
    for text in unknown_variables():
        yield Found(WARN, text, "it has no effect", subject=text.partition(" ")[0])
    kept = Retention.parse(config.keep).whole_days(config.archive_days)
    if config.job_log_days > kept:
        means = f"their jobs are gone after {kept} days, so nobody finds these logs by a job"
        yield Found(
            NOTE, f"job logs are kept for {config.job_log_days:g} days", means, f"FASTQ_JOB_LOG_DAYS={kept}", "job_log_days"
        )
    if not config.archive and "completed" in config.keep:
        means = "FASTQ_ARCHIVE is off, so there are no completed jobs to keep"
        yield Found(NOTE, f"FASTQ_KEEP={config.keep} has a rule for completed jobs", means, "unset FASTQ_KEEP", "keep")


def _set(value: _Value, wanted: str, patient: Patient) -> str:
    """Return the statement that sets a setting where it comes from."""
    if value.source == "user":
        return f'alter role "{patient.connection.raw.info.user}" set {value.name} = {wanted};'
    if value.source in ("database", "database user") or value.name not in ("fsync", "full_page_writes"):
        return f'alter database "{patient.connection.raw.info.dbname}" set {value.name} = {wanted};'
    return f"alter system set {value.name} = {wanted}; select pg_reload_conf();"


CONNECTION = Check("connection", "does the database answer, and does it take writes?", _connection, of_tables=False)
NOTIFICATIONS = Check("notifications", "how full is the server's queue of notifications?", _notifications, of_tables=False)
SETTINGS = Check("settings", "do the settings, here and in the server, go together?", _settings, of_tables=False)
