"""`fastq run`: find the app, the database and the settings, show them, and hand over to the supervisor.

Runs in the main thread of the command, which becomes the supervisor's. It keeps nothing: the supervisor owns all that lives on.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastq import admin, app, log
from fastq.admin.queues import GLANCE, GLANCE_TOTAL
from fastq.args.options import DEFAULT_QUEUE
from fastq.args.secret.ring import ring
from fastq.args.versions.names import names_of
from fastq.cli.terminal import set_gates, settings, shared_queues
from fastq.cli.terminal.database import Database, found, tell_app
from fastq.cli.terminal.output import folded, note, plural, table
from fastq.cli.version import program_version
from fastq.environment import publish, unknown_variables
from fastq.errors import ConfigError
from fastq.events import emit
from fastq.lead import definitions
from fastq.lead.term import domains
from fastq.postgres import pooler
from fastq.schema.migrate import check_owner, current_version, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.config import Config
    from fastq.jobs.registry import Registry
    from fastq.jobs.worker import Worker
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq run app.jobs:registry     one process per core, the queue 'default'
  fastq run app.jobs:registry --procs 8 --queue default=16 --queue emails=4
  fastq run app.jobs:registry --log-json      with FASTQ_DATABASE_URL set

Ctrl-C or SIGTERM once: claim nothing more, let running jobs end (up to
--shutdown-timeout seconds), hand the rest back.
Twice: end at once; what ran is handed back and runs again.
Without a database it starts an embedded Postgres, which is for development.

exit codes: 0 stopped as asked, 1 failed (processes keep crashing ...),
2 usage or setting, 3 no database or not migrated
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`, which `dev` takes too."""
    parser.usage = (
        f"{parser.prog} TARGET [--procs N] [--queue NAME[=CONCURRENCY]]\n{'':{len('usage: ' + parser.prog)}s} [--database URL] "
        "[any setting below]"
    )
    parser.add_argument("target", metavar="TARGET", help="your registry, as MODULE:ATTRIBUTE, such as app.jobs:registry")
    parser.add_argument("--app-dir", type=Path, metavar="FOLDER", help="where to import it from [default: the current directory]")
    settings.add_all(parser)


def main(options: argparse.Namespace) -> int:
    """Run until stopped."""
    config = settings.load(options)
    tell_app(config)
    registry = app.load(options.target, options.app_dir)
    _check(registry)
    log.set_up(config)
    for text in unknown_variables():
        _warn(config, text)
    with found(config, create=True) as database:
        publish(replace(config, database_url=database.url))
        if database.embedded is not None:
            migrate(database.url, config.schema)
        else:
            pooler.check(config, database.url)
        connection = admin.connect(config, database.url)
        try:
            if config.lead:
                check_owner(connection)
            domains.check(
                connection, config.leader_domain, list(config.concurrency), config.process_ttl, config.leader_domain_from
            )
            definitions.define(connection, registry)
            _introduce(options.target, config, registry, database, connection)
        finally:
            connection.close()
        try:
            from fastq.host.supervisor import Supervisor  # noqa: PLC0415 - not before the errors above had their chance
        except FileNotFoundError as error:  # multiprocess looks for one when it is imported
            raise ConfigError(f"the fork server needs a folder for its socket: set TMPDIR to one ({error.strerror})") from error
        declared = definitions.declared(registry)
        return Supervisor(config, options.target, database.url, options.app_dir, declared, list(names_of(registry.workers))).run()


def _check(registry: Registry) -> None:
    """Refuse workers that no process could run: of a mode that is unknown, or of encrypted args without a key."""
    from fastq.work.modes import check_modes  # noqa: PLC0415 - loads asyncio, which other commands do not need

    check_modes(registry.workers.values())
    if any(worker.kind.hides for worker in registry.workers.values()):
        ring()


def _introduce(target: str, config: Config, registry: Registry, database: Database, connection: Connection) -> None:
    """Show the settings, and those that do not fit together: as a page for people, as events if the log is for machines."""
    rows = admin.list_queues(connection, GLANCE, GLANCE_TOTAL)
    facts = {name: text for name, text in _facts(target, config, registry, database, connection, rows).items() if text}
    if config.log_json:
        emit("supervisor.starts", **facts, kinds=sorted(registry.workers))
    else:
        for name, text in facts.items():
            # The address for psql stays whole, to be copied.
            note(f"{'':10s} {text}" if name == "psql" else folded(f"{name:10s} {text}", 11, sys.stderr))
        for sort in registry.sorts():
            if sort.columns:
                note("")
                table(sort.columns, [declared.row() for _, declared in sorted(registry.declared(sort).items())], err=True)
        note("")
    for text in _oddities(config, registry, connection, rows):
        _warn(config, text)


def _facts(
    target: str, config: Config, registry: Registry, database: Database, connection: Connection, rows: list[admin.QueueRow]
) -> dict[str, Any]:
    """Return the lines of the page by their headings; one without a text is left out."""
    from fastq.work.codec import codec  # noqa: PLC0415 - loads the C core

    threads = ", ".join(f"{name} x{count}" for name, count in config.concurrency.items())
    return {
        "fastq": f"{program_version()}, codec {codec.use(config.codec)}",
        "app": f"{target}, {plural(len(registry.workers), 'kind')}",
        "database": database.describe(connection),
        "psql": database.psql,
        "schema": f"{config.schema}, version {current_version(connection)}",
        "processes": str(config.process_count),
        "queues": f"{threads} in each process",
        "leads": _leads(config),
        **{sort.heading: ", ".join(registry.declared(sort)) for sort in registry.sorts() if sort.heading},
        "jobs": ", ".join(_waiting(rows)) or "none waiting",
    }


def _oddities(config: Config, registry: Registry, connection: Connection, rows: list[admin.QueueRow]) -> Iterator[str]:
    """Say which queues have kinds or jobs and are not worked, are paused, or are shared with programs that know other kinds.

    And which gates go by a number of an operator's.
    """
    queues, workers = config.concurrency, sorted(registry.workers.items())
    left_out = {_queue(worker) for _, worker in workers} - queues.keys()
    for queue in sorted(left_out):
        kinds = ", ".join(kind for kind, worker in workers if _queue(worker) == queue)
        yield f"queue '{queue}' ({kinds}) is not worked here: {_adding(config, queue)}"
    for row in rows:
        if row.paused_at and row.name in queues:
            yield f"queue '{row.name}' is paused: fastq queues resume {row.name}"
        elif row.name not in queues.keys() | left_out and row.unworked and not row.paused_at:
            yield f"queue '{row.name}' has jobs, and no process works it: {_adding(config, row.name)}"
    yield from shared_queues.warnings(connection, queues, names_of(registry.workers).keys())
    yield from set_gates.warnings(connection, registry)


def _adding(config: Config, queue: str) -> str:
    """Say how to work a queue too: the first one that is named replaces the one that is worked without any."""
    alone = config.queues == {DEFAULT_QUEUE: 0}
    return f"add --queue {DEFAULT_QUEUE} --queue {queue}" if alone else f"add --queue {queue}"


def _warn(config: Config, text: str) -> None:
    """Warn of a probable mistake, in the format of the log."""
    if config.log_json:
        emit("supervisor.warns", level=logging.WARNING, warning=text)
    else:
        note(folded(f"warning: {text}", len("warning: "), sys.stderr))


def _leads(config: Config) -> str:
    if not config.lead:
        return "never"
    return "" if config.leader_domain == domains.DEFAULT else f"domain {config.leader_domain}"


def _queue(worker: Worker[Any]) -> str:
    return worker.kind.queue or DEFAULT_QUEUE


def _waiting(rows: list[admin.QueueRow]) -> list[str]:
    """Count the jobs of all queues that are to be run."""
    counts = {
        state: sum(getattr(row, state) for row in rows) for state in ("available", "claimed", "retryable", "scheduled", "waiting")
    }
    more = frozenset().union(*(row.more for row in rows))
    return [f"{'at least ' if state in more else ''}{count:,} {state}" for state, count in counts.items() if count]
