"""`fastq jobs signal`, and the records of steps that `fastq jobs show` prints: the parts of `fastq jobs` that are about steps.

Run in the main thread of the command, and keep nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.cli.terminal import output
from fastq.cli.terminal.database import found
from fastq.enqueue.client import Client
from fastq.errors import OptionError
from fastq.events import escaped
from fastq.steps.shown import StepRow, step_of

if TYPE_CHECKING:
    import argparse

    from fastq.config import Config
    from fastq.postgres.db import Connection

SHOWN = 200
"""Characters of a step's value in the list: enough to know it by. `--json` has all of it."""

WORDS = {"step": "done", "cursor": "is at", "sleep": "sleeps", "wait": "waits for a signal", "signal": "was sent"}


def signal(config: Config, options: argparse.Namespace) -> int:
    """Send a signal to a job."""
    try:
        value = msgspec.json.decode(options.value)
    except msgspec.DecodeError as error:
        raise OptionError(f"value {options.value!r}: expected JSON, such as 42 or '\"yes\"' ({error})") from None
    with found(config) as database, Client(database.url, config=config) as client:
        sent = client.signal(options.id, options.name, value)
        there = not sent and any(step.sort == "signal" and step.name == options.name for step in client.steps(options.id))
    if options.json:
        output.json({"id": options.id, "name": options.name, "sent": sent})
    elif sent:
        output.out(f"job {options.id} was sent the signal '{escaped(options.name)}'")
    elif there:
        output.note(f"job {options.id} had a signal '{escaped(options.name)}' already, which stays")
    else:
        output.note(f"job {options.id} has ended, or does not exist")
    return 0 if sent else 1


def steps_of(connection: Connection, job_id: int) -> list[StepRow]:
    """Return the records of a job, oldest first."""
    return [step_of(row) for row in connection.run("step_list", job_id)]


def as_json(steps: list[StepRow]) -> list[dict[str, Any]]:
    """Return the records for JSON: the values go out as they are stored."""
    rows = [(asdict(step), step.output_json) for step in steps]
    for row, _ in rows:
        del row["output_json"]
    return [row | {"output": msgspec.Raw((text or "null").encode())} for row, text in rows]


def lines(steps: list[StepRow]) -> str:
    """Write the records for people, one to a line."""
    return "\n".join(map(_line, steps))


def _line(step: StepRow) -> str:
    facts = [f"attempt {step.attempt}"] if step.attempt is not None else []
    facts += [f"{step.took:.3g} s"] if step.took is not None else []
    told = f"{step.sort} {escaped(step.name)}: {WORDS.get(step.sort, '')} {output.moment(step.at)}"
    told += f", {', '.join(facts)}" if facts else ""
    told += f", until {output.moment(step.until)}" if step.until is not None else ""
    if step.sort == "wait":
        return told + (", its time was over" if step.output_json else "")
    value = step.output_json or ""
    return told + (f": {value[:SHOWN]}{'...' if len(value) > SHOWN else ''}" if value not in ("", "null") else "")
