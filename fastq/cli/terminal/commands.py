"""The commands: the name of each with a sentence, the room in which its module lies, and its parser.

Read by the main thread of the command, and never changed. A command module has `EPILOG` (examples, for its help),
`add_arguments(parser)` and `main(options) -> exit code`.

Invariant: only the module of the command that is named is imported. This module deliberately runs none of them.
"""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING

from fastq.cli.terminal.parser import Parser

if TYPE_CHECKING:
    from types import ModuleType

COMMANDS = {
    "run": "work jobs: a supervisor and its worker processes",
    "dev": "the same for developers: its own database, reload at each change",
    "migrate": "create or update fastq's tables",
    "enqueue": "enqueue a job by hand",
    "check": "list jobs that wait and that your code could not run",
    "doctor": "examine the database and the settings, and say what to type",
    "health": "ask the supervisor of this host whether it is alive and ready",
    "jobs": "list and show jobs, say why one waits, retry, cancel and delete them",
    "export": "write jobs as lines of JSON",
    "import": "enqueue the jobs of an export, once each",
    "operations": "list changes of many jobs, and end one",
    "audit": "list the changes that operators have made",
    "logs": "show the records and the prints of a job, follow them live",
    "top": "show queues, running jobs, failures and processes, live",
    "processes": "list the worker processes of all hosts; show where their jobs are",
    "stats": "show rates, failures, and how long jobs waited and ran",
    "events": "show what happens in all processes, as it happens",
    "dead": "list discarded jobs in groups, replay and delete them",
    "queues": "list, pause and resume queues",
    "gates": "list the gates that jobs go through, set and remove their numbers",
    "pauses": "list, add and remove pauses: of queues, kinds, keys, everything",
    "workflows": "list workflows, draw one as text, retry and cancel it",
    "unique": "list the keys of unique jobs, and give one up by hand",
    "periodic": "list, pause and resume periodic jobs, and run one now",
    "web": "serve the dashboard, on this machine alone",
    "leader": "show who leads and what the chores did; ask a leader to resign",
    "bench": "measure what fastq does on this machine",
    "completion": "have your shell complete commands and options",
    "version": "show the versions of everything that matters",
    "help": "show the help of one; `fastq help settings` lists every setting",
}

ROOMS = {
    **dict.fromkeys(("gates", "unique", "workflows"), "waits"),
    **dict.fromkeys(("logs", "events", "stats"), "history"),
    **dict.fromkeys(("doctor", "health"), "checkup"),
    "completion": "shell",
    **dict.fromkeys(("web", "processes"), "views"),
    **dict.fromkeys(("operations", "audit", "export", "import"), "search"),
    "top": "top",
}
"""Rooms of commands: about jobs that wait for others, the traces of jobs, the health of it all, your shell, and views."""


FILES = {"export": "exports", "import": "imports"}
"""Modules with another name than their command: `import` is a word of Python."""


def module_of(name: str) -> ModuleType:
    """Import the module of a command."""
    file = FILES.get(name, name)
    return importlib.import_module(f"fastq.cli.{ROOMS[name]}.{file}" if name in ROOMS else f"fastq.cli.{file}")


def parser_of(name: str, command: ModuleType | None = None) -> argparse.ArgumentParser:
    """Make the parser of a command, whose module is imported if it is not given."""
    command = command or module_of(name)
    text = COMMANDS[name]
    parser = Parser(
        prog=f"fastq {name}",
        description=text[0].upper() + text[1:] + ".",
        epilog=command.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser
