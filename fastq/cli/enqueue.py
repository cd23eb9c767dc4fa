"""`fastq enqueue`: enqueue one job by hand.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from fastq import app
from fastq.args.faults import MAX_DEPTH, fault_in_text
from fastq.args.kinds import Kind
from fastq.args.options import Counting
from fastq.args.text import field_names
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found, tell_app
from fastq.cli.terminal.parser import seconds, until, whole
from fastq.enqueue.client import Client
from fastq.errors import ArgsError, UnknownKind
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from fastq.config import Config

EPILOG = """\
examples:
  fastq enqueue sort '{"strings": ["whale", "tiger"]}'
  fastq enqueue sort '{"strings": []}' --app app.jobs:registry
                                      checks the args against the kind's type
  fastq enqueue report '{}' --delay 3600 --priority 2 --tag nightly
  fastq enqueue sms '{"to": "Ada"}' --expires 10m --keep-trying-for 1h
  generate | fastq enqueue import -   reads the JSON from stdin

Without --app nothing is known about the kind: its queue and options are the
defaults, and wrong args fail in the worker.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kind", metavar="KIND", help="the kind, such as sort")
    parser.add_argument("args", metavar="JSON", help="the args, a JSON object; - reads it from stdin")
    parser.add_argument(
        "--app", metavar="TARGET", help="your registry, as MODULE:ATTRIBUTE, to check the args and take the kind's options"
    )
    parser.add_argument("--app-dir", type=Path, metavar="FOLDER", help="where to import it from [default: the current directory]")
    parser.add_argument("--queue", metavar="NAME", help="[default: the kind's, else default]")
    parser.add_argument("--priority", type=whole, metavar="N", help="1 (first) to 4 (last) [default: the kind's, else 1]")
    parser.add_argument("--delay", type=seconds, metavar="SECONDS", help="not before so many seconds from now [default: at once]")
    parser.add_argument("--expires", type=until, metavar="TIME", help="not after so long from when it is due (30m), or a time")
    parser.add_argument("--deadline", type=until, metavar="TIME", help="ended so long after it is due (2h), or by a time")
    parser.add_argument("--keep-trying-for", type=until, metavar="SPAN", help="try it again for so long (1d), not N times")
    parser.add_argument("--max-attempts", type=whole, metavar="N", help="[default: the kind's, else 25]")
    parser.add_argument("--attempts", choices=get_args(Counting), help="count them from the job's last progress on")
    parser.add_argument("--tag", action="append", dest="tags", metavar="TAG", help="may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON: the id")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Enqueue the job and print its id."""
    config = settings.load(options)
    kind, args = _checked(options, config) if options.app else _unchecked(options)
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        with Client(config=replace(config, database_url=database.url)) as client:
            job_id = client.enqueue(
                args,
                kind=kind,
                queue=options.queue,
                priority=options.priority,
                delay=options.delay,
                max_attempts=options.max_attempts,
                tags=options.tags,
                expires=options.expires,
                deadline=options.deadline,
                keep_trying_for=options.keep_trying_for,
                attempts=options.attempts,
            )
    if options.json:
        output.json({"id": int(job_id)})
    else:
        output.out(f"enqueued job {job_id}")
    return 0


def _unchecked(options: argparse.Namespace) -> tuple[Kind[Any], dict[str, Any]]:
    return Kind(options.kind, dict), _object(options)


def _checked(options: argparse.Namespace, config: Config) -> tuple[Kind[Any], Any]:
    """Read the args as the worker will; a key that its type does not know is a mistake here, and refused."""
    tell_app(config)
    workers = app.load(options.app, options.app_dir).workers
    if options.kind not in workers:
        raise UnknownKind(f"{options.app} has no worker for kind '{options.kind}'; it has {', '.join(sorted(workers))}")
    kind: Kind[Any] = workers[options.kind].kind
    given = _object(options)
    args = kind.codec.decode(msgspec.json.encode(given))
    known = field_names(kind.type)
    if known is None:  # the written JSON has all fields of a pydantic model, and of a mapping the given ones
        seen = msgspec.json.decode(kind.codec.plain(args))
        known = list(seen) if isinstance(seen, dict) else list(given)
    if unknown := [name for name in given if name not in known]:
        raise ArgsError(kind.name, f"no such field; {kind.place} has {', '.join(known) or 'none'}", field=unknown[0])
    return kind, args


def _object(options: argparse.Namespace) -> dict[str, Any]:
    """Read the JSON; a reason is given for all that a writer of JSON may well do."""
    given = sys.stdin.buffer.read() if options.args == "-" else os.fsencode(options.args)
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except RecursionError:
        raise ArgsError(options.kind, f"nested deeper than {MAX_DEPTH} levels") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        example = """; in a shell write '{"field": 1}', in single quotes"""
        text = given.decode(errors="backslashreplace")
        raise ArgsError(options.kind, f"expected a JSON object, got {text[:60]!r} ({_reason(given, error)}){example}") from None


def _reason(given: bytes, error: Exception) -> str:
    """Explain why the JSON is refused: msgspec calls a lone surrogate truncated, and does not say where bytes are no text."""
    try:
        fault = fault_in_text(json.loads(given.decode()))
    except UnicodeDecodeError as unreadable:
        return f"byte {unreadable.start} is no UTF-8"
    except (ValueError, RecursionError):
        return str(error)
    return f"field '{fault.field}': {fault.reason}" if fault else str(error)
