"""`fastq jobs`: list, count, tail and show jobs, say why one waits and where it is, signal, retry, cancel, delete, edit them.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from fastq import admin
from fastq.admin.unique import SHORT
from fastq.cli.history import rotating
from fastq.cli.search import changing, listing, tailing
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found, opened
from fastq.cli.views import processes
from fastq.cli.waits import signals
from fastq.enqueue.client import Client
from fastq.errors import JobNotFound
from fastq.events import escaped
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq jobs list state:discarded kind:sort since:2h
  fastq jobs count state:discarded
  fastq jobs tail kind:sort     those that come and end, until Ctrl-C
  fastq jobs show 42            args, tags, output, steps, and every error with
                                its traceback
  fastq jobs why 42             what it waits for, in one sentence
  fastq jobs stack 42           where its code is now, if it runs
  fastq jobs wait 42            until it has ended: exit code 0 if it completed,
                                3 if it was cancelled, 4 if it was discarded
  fastq jobs signal 42 approved '{"by": "ada"}'
                                for a job that waits for it, or will
  fastq jobs retry 42 43        now, finished ones too: with their id, and one
                                more attempt
  fastq jobs cancel 42          a running job is asked to end
  fastq jobs retry state:discarded kind:sort --yes
                                an operation: fastq operations
  fastq jobs move --queue slow 42
  fastq jobs rotate-keys pay    encrypt the args of the jobs of a kind that wait
                                with the newest of FASTQ_ARGS_KEYS; finished
                                ones, too: --archive

Exit code 1 if one of the ids could not be done, or did not end in time.
"""
ENDED = {State.COMPLETED: 0, State.CANCELLED: 3, State.DISCARDED: 4}
"""The exit codes of a wait: 1 says that nothing is known of the job's end, 2 is for mistakes in the command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    listed = actions.add_parser("list", help="show jobs, newest first", epilog=listing.LIST_EPILOG, formatter_class=raw)
    listing.add_page(listed)
    counted = actions.add_parser(
        "count", help="count the jobs that fit, up to 10,000", epilog=listing.COUNT_EPILOG, formatter_class=raw
    )
    listing.add_filter(counted)
    tailed = actions.add_parser(
        "tail", help="show jobs as they are enqueued and as they end", epilog=tailing.EPILOG, formatter_class=raw
    )
    tailing.add_arguments(tailed)
    showing = actions.add_parser("show", help="show everything about one job")
    telling = actions.add_parser("why", help="say in one sentence what a job waits for, or what became of it")
    looking = actions.add_parser("stack", help="show where a running job is, as its process tells")
    for action in (showing, telling, looking):
        action.add_argument("id", type=_positive, metavar="ID")
    processes.add_timeout(looking)
    waiting = actions.add_parser("wait", help="wait until a job has ended, and print its output")
    waiting.add_argument("id", type=_positive, metavar="ID")
    waiting.add_argument("--timeout", type=float, metavar="S", help="seconds to wait at most [default: as long as it takes]")
    signalling = actions.add_parser("signal", help="send a job a signal, which its job.wait_for returns")
    signalling.add_argument("id", type=_positive, metavar="ID")
    signalling.add_argument("name", metavar="NAME", help="what it waits for")
    signalling.add_argument("value", metavar="VALUE", nargs="?", default="null", help="JSON [default: null]")
    verbs = {
        verb: actions.add_parser(verb, help=text, epilog=changing.EPILOG, formatter_class=raw)
        for verb, text in changing.HELP.items()
    }
    for verb, action in verbs.items():
        changing.add_arguments(action, verb)
    encrypting = actions.add_parser("rotate-keys", help="encrypt the args of a kind's jobs anew, with the newest key")
    encrypting.add_argument("kind", metavar="KIND")
    encrypting.add_argument("--archive", action="store_true", help="those of finished jobs, too")
    for action in (listed, counted, tailed, showing, telling, looking, waiting, signalling, encrypting, *verbs.values()):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    config = settings.load(options)
    if options.action == "wait":
        return _wait(config, options)
    if options.action == "signal":
        return signals.signal(config, options)
    with opened(config) as connection:
        return ON_CONNECTION.get(options.action, changing.change)(connection, options)


def _show(connection: Connection, options: argparse.Namespace) -> int:
    detail = admin.show_job(connection, options.id)
    if detail is None:
        return _unknown(options.id)
    steps = signals.steps_of(connection, detail.id)
    if options.json:
        row = asdict(detail)  # the JSON goes out as it is stored, with each digit of a number
        row |= {name: msgspec.Raw((row.pop(f"{name}_json") or "null").encode()) for name in ("args", "output")}
        output.json(row | {"steps": signals.as_json(steps), "log_lines": int(connection.run_one("log_count", detail.id)[0])})
        return 0
    waits = listing.waits(detail, listing.why_waiting(connection, [detail]))
    if detail.gates:
        waits = (admin.why_job(connection, detail.id) or "").partition(" waits ")[2] or waits
    output.fields([*facts(detail, waits), *_key(connection, detail), ("log", _log(connection, detail.id))])
    if steps:
        output.block("steps", signals.lines(steps))
    for error in detail.errors:
        if error.get("left_out"):
            output.block(f"{error['left_out']:,} errors between these were not kept", "")
        at = output.moment(datetime.fromisoformat(error["at"])) if error.get("at") else "at an unknown time"
        output.block(f"attempt {error.get('attempt', '?')}, {at}", str(error.get("trace") or error.get("error", "")))
    return 0


def _why(connection: Connection, options: argparse.Namespace) -> int:
    why = admin.why_job(connection, options.id)
    if why is None:
        return _unknown(options.id)
    if options.json:
        output.json({"id": options.id, "why": why})
    else:
        output.out(escaped(why))
    return 0


def _wait(config: Config, options: argparse.Namespace) -> int:
    with found(config) as database, Client(database.url, config=config) as client:
        try:
            ended = client.wait(options.id, timeout=options.timeout)
        except JobNotFound:
            return _unknown(options.id)
        except TimeoutError as error:
            output.note(f"fastq: {error}")
            return 1
    if options.json:
        fields = ("id", "kind", "state", "attempt", "finalized_at", "cause", "error")
        output.json(
            {name: getattr(ended, name) for name in fields} | {"output": msgspec.Raw((ended.output_json or "null").encode())}
        )
    elif ended.ok:
        output.out(ended.output_json or f"job {ended.id} completed")
    else:
        output.note(f"job {ended.id} was {ended.state.value}{f': {escaped(ended.error)}' if ended.error else ''}")
    return ENDED[ended.state]


def _unknown(job_id: int) -> int:
    output.note(f"fastq: there is no job {job_id}; finished ones are kept as FASTQ_ARCHIVE_DAYS and FASTQ_KEEP say")
    return 1


def facts(detail: admin.JobDetail, waits: str | None) -> list[tuple[str, object]]:
    """Return the lines of one job by their headings; one without a value is left out."""
    claimed_by = f"{detail.host} (pid {detail.pid})" if detail.host else None
    moments = [
        ("enqueued", detail.created_at),
        ("due", detail.scheduled_at),
        ("started", detail.attempted_at),
        ("ended", detail.finalized_at),
        ("expires", detail.expires),
        ("deadline", detail.deadline),
        ("tried until", detail.keep_trying_until),
    ]
    return [
        ("id", detail.id),
        ("kind", detail.kind),
        ("state", detail.state.value + (", asked to end" if detail.cancel_requested else "")),
        ("queue", detail.queue),
        ("priority", detail.priority),
        ("attempt", f"{detail.attempt} of {detail.max_attempts}{_since(detail)}"),
        *((name, output.moment(moment)) for name, moment in moments if moment),
        ("waits", waits),
        ("claimed by", claimed_by),
        ("progress", _progress(detail)),
        ("crashes", detail.crashes or None),
        ("tags", detail.tags),
        ("args", detail.args_json),
        ("output", detail.output_json),
        ("cause", detail.cause),
        ("replays", detail.replay_of),
        ("meta", msgspec.json.encode(detail.meta).decode() if detail.meta else None),
    ]


def _since(detail: admin.JobDetail) -> str:
    """Say why the number of attempts grows, of a job with which it does."""
    since = detail.attempts_since_progress
    return f", {since} from its last progress on" if since else ""


def _progress(detail: admin.JobDetail) -> str | None:
    """Say how far the job was when it told so last."""
    told = detail.progress
    if told is None:
        return None
    what = f", {escaped(told.text)}" if told.text else ""
    return f"{told.fraction:.0%}{what} ({output.moment(told.noted_at)}, attempt {told.attempt})"


def _log(connection: Connection, job_id: int) -> str | None:
    """Say how many lines of a job's log are kept, and how to read them."""
    lines, attempts = connection.run_one("log_count", job_id)
    of = f" of {attempts} attempts" if attempts > 1 else ""
    return f"{output.plural(lines, 'line')}{of}: fastq logs {job_id}" if lines else None


def _key(connection: Connection, detail: admin.JobDetail) -> list[tuple[str, object]]:
    """Return the line of a unique job's key: whether the job holds it, or another one does, or nobody."""
    key = detail.unique
    if not key:
        return []
    holders = [row.job_id for row in admin.find_keys(connection, key[0])]
    told = "given up" if not holders else "held" if holders[0] == detail.id else f"held by job {holders[0]}"
    return [("unique key", f"{key[0][:SHORT]}, until {key[1]}: {told}")]


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < number < 2**63:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return number


ON_CONNECTION: Mapping[str, Callable[[Connection, argparse.Namespace], int]] = {
    "list": listing.jobs,
    "count": listing.number,
    "tail": tailing.tail,
    "show": _show,
    "why": _why,
    "stack": lambda connection, options: processes.show_stack(connection, options, job=options.id),
    "rotate-keys": rotating.rotate,
}
"""The actions that need a connection of their own and no client; those that change jobs are besides."""
