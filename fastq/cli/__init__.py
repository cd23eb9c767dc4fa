"""The command line: `fastq COMMAND ...`. A command is a module of this room, or of a room in it; only the named one is imported.

Runs in the main thread of the command, and keeps nothing; dev.py alone owns a child process while it runs, and a thread in that
child. A command module has `EPILOG` (examples, for its help), `add_arguments(parser)` and `main(options) -> exit code`. Errors
that it raises on purpose, errors of the database and errors of the system (no space, a folder that is read-only) become one line
on stderr and an exit code here; any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from fastq.cli.terminal import settings
from fastq.cli.terminal.commands import COMMANDS, module_of, parser_of
from fastq.cli.terminal.output import note, out
from fastq.cli.terminal.parser import USAGE
from fastq.errors import (
    ConfigError,
    DatabaseUnavailable,
    FastqError,
    LeaseError,
    MigrationError,
    OptionError,
    RegistryError,
    UnknownKind,
)

OK, FAILED, NO_DATABASE, INTERRUPTED = 0, 1, 3, 130  # and USAGE, 2

ALSO_CALLED = {
    "limits": "gates",
    "rates": "gates",
    "orders": "gates",
    "keys": "gates",
    "batches": "workflows",
    "dashboard": "web",
}
"""Words for the things that a command is about, where they are not near its name: the error names the command."""

TELL_THEMSELVES = ("run", "dev")
"""Commands that tell themselves of variables that are no settings: `run` in the form of its log, `dev` by its `run`."""

HELP = """\
fastq: a job queue for Python on Postgres.

usage: fastq COMMAND ...    (fastq COMMAND --help tells more, with examples)

{commands}

start here:
  fastq dev app.jobs:registry       work your jobs, on a Postgres that it
                                    brings along
  fastq enqueue sort '{{"strings": ["b", "a"]}}'        in another terminal
  fastq jobs list

The database: --database URL, or FASTQ_DATABASE_URL. Without both an embedded
Postgres in .fastq/postgres is used, which is for development.

exit codes: 0 done, 1 failed, 2 usage or setting, 3 no database or not
migrated, 130 interrupted
"""

HINT = "is the server running? --database or FASTQ_DATABASE_URL names it; without both an embedded Postgres is used"
UNANSWERED = ("Is the server running", "timeout expired", "failed to resolve host", "closed the connection unexpectedly")
"""Parts of the messages of libpq and psycopg about a server that does not answer; they have no codes for it."""

RIGHTS = "fastq migrate and fastq run take the owner of the schema, other commands a role with less: docs/postgres.md, Roles"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    _open_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words else "help"
    aliases = {"-h": "help", "--help": "help", "-V": "version", "--version": "version"}
    name, rest = aliases.get(name, name), words[1:]
    try:
        code = _run(name, rest)
        sys.stdout.flush()  # here, where a broken pipe is expected
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        _drop_output()
        return OK
    except FastqError as error:
        return _failed(error)
    except OSError as error:
        note(f"fastq: {error}")
        _drop_output()
        return FAILED
    except Exception as error:
        from fastq.postgres import db, sqlstate  # noqa: PLC0415 - the code that raised has loaded this; help does without

        if not isinstance(error, db.Error):
            raise
        note(f"fastq: the database refused: {db.first_line(error)}")
        if sqlstate.forbidden(error):
            note(f"fastq: {RIGHTS}")
        return NO_DATABASE
    return code


def _open_streams() -> None:
    """Put the null device where somebody has closed a standard stream: the next file would take its number, and get our words."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - for as long as the program lives


def _drop_output() -> None:
    """Flush stdout if it still takes its buffer, so that the flush at the interpreter's end does not fail."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(name: str, rest: list[str]) -> int:
    if name == "help":
        return _help(rest)
    if name not in COMMANDS:
        return _unknown(name)
    if name == "bench":
        return int(importlib.import_module("fastq.bench").main(rest) or 0)
    command = module_of(name)
    options = parser_of(name, command).parse_args(rest)
    options.argv = rest
    if name not in TELL_THEMSELVES:
        settings.tell_unknown()
    return int(command.main(options))


def _help(topic: list[str]) -> int:
    topic = [word for word in topic if word not in ("-h", "--help")]
    if topic == ["settings"]:
        out(settings.reference())
    elif topic and topic[0] in COMMANDS and topic[0] not in ("help", "bench"):
        parser_of(topic[0], module_of(topic[0])).print_help()
    elif topic == ["bench"]:
        return main(["bench", "--help"])
    elif topic and topic[0] != "help":
        return _unknown(topic[0])
    else:
        out(HELP.format(commands="\n".join(f"  {name:9s} {text}" for name, text in COMMANDS.items())).rstrip())
    return OK


def _unknown(name: str) -> int:
    import difflib  # noqa: PLC0415 - for a mistake alone

    near = difflib.get_close_matches(name, [*COMMANDS, *ALSO_CALLED], n=1)
    known = f"did you mean {ALSO_CALLED.get(near[0], near[0])}?" if near else f"there are {', '.join(COMMANDS)}"
    note(f"fastq: no command {name!r}; {known}")
    return USAGE


def _failed(error: FastqError) -> int:
    """Tell an error and choose the exit code."""
    note(f"fastq: {error}")
    if isinstance(error, DatabaseUnavailable) and any(sign in str(error.__cause__) for sign in UNANSWERED):
        note(f"fastq: {HINT}")  # a server that refuses us, or a URL that cannot be followed, says itself why
    if isinstance(error, DatabaseUnavailable | MigrationError):
        return NO_DATABASE
    usage = (ConfigError, LeaseError, OptionError, RegistryError, UnknownKind, ValueError)
    return USAGE if isinstance(error, usage) else FAILED
