"""`fastq health`: ask the supervisor of this host whether it is alive and ready, for probes that run a command.

Runs in the main thread of the command, and keeps nothing. It asks the port of FASTQ_HEALTH, imports no application, opens no
session of the database: a probe comes every few seconds. It deliberately speaks HTTP by hand, and reads JSON by the standard
library: to import more takes longer than the answer.
"""

from __future__ import annotations

import argparse
import json
import socket
from typing import TYPE_CHECKING, Any

from fastq.cli.terminal import output
from fastq.cli.terminal.parser import seconds
from fastq.config import Config
from fastq.errors import ConfigError
from fastq.settings.declaring import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

EPILOG = """\
examples:
  fastq health                    is it alive and ready? FASTQ_HEALTH says
                                  where the supervisor listens
  fastq health --alive            is it alive? also while it stops, and while
                                  the database is away
  fastq health --health 127.0.0.1:9464 --json

exit codes: 0 yes, 1 no, with the reasons, 2 usage or setting, 3 nobody
answers there
"""

NO, NOBODY = 1, 3
"""Exit codes; 2 is that of wrong usage, as everywhere."""

PATIENCE = 2.0
"""Seconds for the answer, which comes from memory: longer than a busy machine takes, shorter than a probe's usual time."""

LONGEST = 65_536
"""Bytes of an answer that are read; one has some hundred."""

PATHS = {"alive": "/healthz", "ready": "/readyz"}
"""The paths of the port (host/vitals/port.py), by question."""

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here
"""Addresses of all interfaces, where a supervisor may listen, with the one by which this host reaches itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--alive", action="store_true", help="ask only whether it is alive")
    parser.add_argument("--health", metavar="HOST:PORT", help="where it listens [FASTQ_HEALTH]")
    parser.add_argument("--timeout", type=seconds, default=PATIENCE, metavar="S", help=f"seconds to wait [default: {PATIENCE:g}]")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Ask, and tell the answer."""
    address = Config.load(health=options.health).health
    if not address:
        raise ConfigError(
            "fastq health asks the port of a `fastq run`: set FASTQ_HEALTH=127.0.0.1:9464 for both, or give --health"
        )
    questions = ["alive"] if options.alive else list(PATHS)
    try:
        told = {question: _ask(address, question, options.timeout) for question in questions}
    except (OSError, ValueError) as error:
        output.note(f"fastq: nobody answers at {address}: {error}")
        return NOBODY
    yes = all(answer[question] for question, answer in told.items())
    reasons = list(dict.fromkeys(reason for answer in told.values() for reason in answer["reasons"]))
    if options.json:
        output.json({**{question: answer[question] for question, answer in told.items()}, "reasons": reasons})
    else:
        output.out("\n".join(_lines(told, reasons)))
    return 0 if yes else NO


def _lines(told: dict[str, dict[str, Any]], reasons: list[str]) -> Iterator[str]:
    yield ", ".join(question if answer[question] else f"not {question}" for question, answer in told.items())
    yield from (f"  {reason}" for reason in reasons)


def _ask(address: str, question: str, patience: float) -> dict[str, Any]:
    """Return the answer to one question; OSError or ValueError if there is none."""
    host, port = parse_address(address)
    host = ANYWHERE.get(host, host)
    with socket.create_connection((host, port), patience) as asked:
        asked.sendall(f"GET {PATHS[question]} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while len(got) < LONGEST and (more := asked.recv(LONGEST)):
            got += more
    head, _, body = got.partition(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 ")):
        raise ValueError("this is no supervisor of fastq")
    try:
        answer: Any = json.loads(body)
    except ValueError as error:
        raise ValueError("this is no supervisor of fastq") from error
    reasons = answer.get("reasons") if isinstance(answer, dict) else None
    told = isinstance(reasons, list) and all(isinstance(one, str) for one in reasons)
    if not told or not isinstance(answer.get(question), bool):
        raise ValueError("this is no supervisor of fastq")
    return dict(answer)
