"""`fastq dev`: a database, its schema, and `fastq run` as a child that is started again when the code changes.

The child is a program of its own, so a change is seen whole (no module reloading), and it is stopped as a deployment
would stop it: with SIGTERM, so that running jobs may end. It has a process group of its own: a Ctrl-C reaches this process
alone, which passes it on once. SIGTERM does the same, and so does a terminal that closes (SIGHUP, of which several may come); a
second one of the others ends the child at once.

Invariant: this process leaves no child behind, also when it is killed, and never works jobs itself. The child holds one end of
a pipe; when the other one closes it stops in order (`end_with`, in the child, by a thread that waits for that). All else runs in
the main thread of the command, which owns the child; the handler of its signals writes `_Stop`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastq import app
from fastq.cli import run
from fastq.cli.terminal import settings
from fastq.cli.terminal.database import found
from fastq.cli.terminal.output import note
from fastq.cli.terminal.settings import flag_of
from fastq.config import migrate_command
from fastq.environment import is_set
from fastq.errors import MigrationError
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.cli.terminal.database import Database

EPILOG = """\
examples:
  fastq dev app.jobs:registry               embedded Postgres in .fastq/postgres
                                            unless FASTQ_DATABASE_URL is set
  fastq dev app.jobs:registry --procs 1     one process: easier to follow

It takes what `fastq run` takes. Python files below the app dir are watched;
after a change running jobs get 2 seconds to end, unless --shutdown-timeout
says otherwise, are handed back, and everything starts again with the new
code. Enqueue from another terminal: fastq enqueue KIND '{"field": 1}'

The embedded Postgres is migrated; a database of your own only with --migrate,
or by fastq migrate.
"""

SHUTDOWN_TIMEOUT = 2
"""Seconds that running jobs get at a change and at the end, unless the setting is given: the developer waits for the new code,
and jobs that are handed back run again with it. A guess."""

LOOK = 0.3
"""Seconds between two looks at the child; a person does not notice."""

POLL = 1.0
"""Seconds between two looks at the files where watchfiles is not installed: 10 ms of work for a thousand of them."""

STEP = 0.02
"""Seconds between two looks at a child that is ending; an order below the time that takes."""

GRACE = 10.0
"""Seconds beyond the shutdown timeout until a child that does not end is killed; a guess."""

CHILD = "import sys; from fastq.cli import dev, main; dev.end_with(int(sys.argv.pop(1))); sys.exit(main())"
"""The program of the child: `fastq`, told of its parent's end."""

IGNORED = {"node_modules", "venv", "site-packages", "__pycache__"}
"""Folders that hold no code of the user's, besides those whose name begins with a dot."""


class _Stop:
    """Count the signals that asked for the end; the handler writes, the loops read."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.count = 0

    def __call__(self, number: int, _frame: object) -> None:
        if number != signal.SIGHUP or not self.count:  # a terminal that closes sends several
            self.count += 1
        self.asked.set()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: those of `run`."""
    run.add_arguments(parser)
    parser.add_argument("--migrate", action="store_true", help="create or update the tables in a database of your own, too")


def main(options: argparse.Namespace) -> int:
    """Run until stopped."""
    config = settings.load(options)
    app.split(options.target)  # a target that is written wrongly does not get better by waiting
    directory = app.insert(options.app_dir)
    words = ["run", *(word for word in options.argv if word != "--migrate")]
    patience = config.shutdown_timeout
    if options.shutdown_timeout is None and not is_set("shutdown_timeout"):
        words += [flag_of("shutdown_timeout"), str(SHUTDOWN_TIMEOUT)]
        patience = SHUTDOWN_TIMEOUT
    with found(config, create=True) as database:
        _migrate(database, config.schema, allowed=options.migrate)
        note(f"watching the Python files in {directory}; Ctrl-C ends it\n")
        stop = _Stop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup has it ignored, and means it
                signal.signal(number, stop)
        return _run(words, directory, patience + GRACE, stop)


def _migrate(database: Database, schema: str, *, allowed: bool) -> None:
    """Migrate the embedded database; one of the user's own, which others may use, if that was said."""
    if database.embedded is None and not allowed:
        if missing := migrate(database.url, schema, dry_run=True):
            raise MigrationError(
                f"the schema '{schema}' lacks {', '.join(missing)}, and this database is not one that fastq dev has made: "
                f"run {migrate_command(schema)}, or fastq dev with --migrate"
            )
        return
    for name in migrate(database.url, schema):
        note(f"migrated: {name}")


def end_with(alive: int) -> None:
    """Have this program stop in order when the other end of this pipe closes. Called in the child."""
    os.set_inheritable(alive, False)
    main_thread = threading.main_thread()

    def wait() -> None:
        os.read(alive, 1)
        signal.pthread_kill(main_thread.ident or 0, signal.SIGTERM)

    threading.Thread(target=wait, name="fastq dev", daemon=True).start()


def _run(words: list[str], directory: Path, patience: float, stop: _Stop) -> int:
    """Keep the child going until a signal comes."""
    alive, _ours = os.pipe()  # closed by the end of this process, of any kind
    child = _start(words, alive)
    told = False
    try:
        for changed in _changes(directory, stop.asked):
            if changed:
                note(f"\n{', '.join(sorted(changed)[:3])} changed: starting again\n")
                _end(child, patience, stop)
                child, told = _start(words, alive), False
            elif not told and (code := child.poll()) is not None:
                note(f"\nfastq run ended with code {code}; it starts again when the code changes")
                told = True
    finally:
        _end(child, patience, stop)
    return 0


def _start(words: list[str], alive: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, str(alive), *words]
    return subprocess.Popen(command, process_group=0, pass_fds=[alive])  # noqa: S603 - our own program, the user's own arguments


def _end(child: subprocess.Popen[bytes], patience: float, stop: _Stop) -> None:
    """Ask the child to end and wait for it; pass a second signal on, and kill it if it does not end."""
    child.terminate()
    passed_on = 1  # the first signal, or a change of the code in its place; a second one may have come already
    give_up = time.monotonic() + patience
    while child.poll() is None and time.monotonic() < give_up:
        time.sleep(STEP)  # before a second signal, too: the system makes one of two that follow at once
        if stop.count > passed_on:
            passed_on = stop.count
            child.terminate()
            give_up = time.monotonic() + GRACE
    if child.poll() is None:
        note(f"fastq run did not end within {patience:g} s: killing it")
        child.kill()
        child.wait()


def _changes(directory: Path, stopped: threading.Event) -> Iterator[set[str]]:
    """Yield the Python files that changed, and an empty set every now and then, until stopped."""
    try:
        import watchfiles  # noqa: PLC0415 - optional
    except ImportError:
        yield from _polled_changes(directory, stopped)
        return
    for changes in watchfiles.watch(
        directory,
        watch_filter=lambda _, path: _watched(Path(path).relative_to(directory)),
        stop_event=stopped,
        rust_timeout=int(LOOK * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    ):
        yield {str(Path(path).relative_to(directory)) for _, path in changes}


def _watched(path: Path) -> bool:
    return path.suffix == ".py" and not any(_ignored(part) for part in path.parts[:-1])


def _ignored(folder: str) -> bool:
    return folder in IGNORED or folder.startswith(".")


def _polled_changes(directory: Path, stopped: threading.Event) -> Iterator[set[str]]:
    before = _times(directory)
    while not stopped.wait(POLL):
        now = _times(directory)
        yield {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        before = now


def _times(directory: Path) -> dict[str, int]:
    """Return when each watched file was last written."""
    times: dict[str, int] = {}
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not _ignored(name)]
        for name in files:
            if name.endswith(".py"):
                path = Path(folder, name)
                times[str(path.relative_to(directory))] = path.stat().st_mtime_ns if path.exists() else 0
    return times
