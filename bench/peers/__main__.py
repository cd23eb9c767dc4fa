"""fastq beside others, in one run: `python -m bench.peers [--only fastq,river] [--cells backlog,idle] [--rounds 3] [--json]`.

Each system does what the cells of `fastq bench` ask (`fastq/bench/cells`), by its public API, with the settings that its own
documentation has for speed; they are in the result. The systems take turns, cell by cell, so that all see the same machine. A
system that cannot be had on this machine, or a cell that it has no answer to, stands in the table with the reason. Peers are
installed into `build/peers` on first use; see `bench/peers/README.md`.
"""

import argparse
import json
import platform
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.peers import table
from bench.peers.adapters import PEERS
from bench.peers.install import Absent
from bench.peers.peer import Beside
from bench.peers.servers import SETTINGS, Redis, postgres
from fastq.bench import load, report
from fastq.bench.cells.cell import Stage, System
from fastq.bench.cells.own import Fastq
from fastq.bench.cells.table import BY_NAME, Answer
from fastq.config import Config
from fastq.errors import FastqError
from fastq.postgres import db

OWN = "fastq"


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end the servers and programs, too
    with ExitStack() as stack:
        result = measured(stack, options)
    if options.json:
        print(json.dumps(result))
    else:
        print(table.markdown(result))
    return 0


def measured(stack: ExitStack, options: argparse.Namespace) -> dict[str, Any]:
    url = stack.enter_context(postgres())
    config = replace(Config.load(), database_url=url, schema=load.SCHEMA, procs=options.procs, log_level="warning")
    admin = db.connect(url, role="peers", pins={"search_path": "public"}, prepare=False, timeout=300.0)
    stack.callback(admin.close)
    admin.execute("set client_min_messages = warning")
    systems: dict[str, System] = {}
    result: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "command": f"python -m bench.peers {_command(sys.argv[1:])}",
        "machine": report.machine() | {"system": platform.system()},
        "settings": {"rounds": options.rounds, "scale": options.scale, "procs": options.procs, "postgres": dict(SETTINGS)},
        "systems": {},
        "cells": {},
    }
    for name in options.only:
        try:
            systems[name], result["systems"][name] = _system(name, stack, config, admin)
        except (Absent, FastqError) as absent:
            result["systems"][name] = {"absent": str(absent)}
            _tell(f"{name}: {absent}")
    for name in options.cells:
        result["cells"][name] = _asked(name, systems, options)
        if options.out:  # after each cell: a run that is ended early has told what it has
            Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    return result


def _system(name: str, stack: ExitStack, config: Config, admin: db.Connection) -> tuple[System, dict[str, Any]]:
    """Install a system, and say what it is."""
    if name == OWN:
        connection = stack.enter_context(load.fresh_schema(config))
        said = {"versions": report.versions(connection), **report.settings(connection, config, 0, 0)}
        said.pop("jobs"), said.pop("rounds")
        return Fastq(connection, config), {"version": said["versions"]["fastq"], "settings": said}
    peer = PEERS[name]
    redis = None
    if peer.redis:
        redis = Redis()
        stack.callback(redis.stop)
    _tell(f"{name}: installing, where it is not there")
    system = Beside(peer, admin, config.database_url, config.process_count, redis)
    stack.callback(system.close)
    settings = dict(peer.settings) | ({"redis": f"{redis.version}, appendfsync everysec"} if redis else {})
    return system, {"version": system.version, "language": peer.language, "settings": settings}


def _asked(name: str, systems: dict[str, System], options: argparse.Namespace) -> dict[str, Any]:
    """Ask all systems one cell, round after round, in turns."""
    answers = {system: Answer() for system in systems}
    lacking: dict[str, str] = {}
    for round_ in range(options.rounds):
        for label, system in systems.items():
            why = PEERS[label].lacks.get(name) if label in PEERS else None
            if why or label in lacking:
                lacking.setdefault(label, why or "")
                continue
            _tell(f"{name}, round {round_ + 1} of {options.rounds}: {label}")
            try:
                answers[label].rounds.append(BY_NAME[name].measure(Stage(system, options.scale)))
            except (FastqError, db.Error, ZeroDivisionError, KeyError) as error:
                lacking[label] = f"failed: {str(error).splitlines()[0]}"
                _tell(lacking[label])
    return {
        "question": BY_NAME[name].question,
        "rounds": {label: answer.rounds for label, answer in answers.items() if answer.rounds},
        "lacking": lacking,
    }


def _command(words: list[str]) -> str:
    """Return the words of the command without the file that the result goes to."""
    if "--out" in words:
        place = words.index("--out")
        words = words[:place] + words[place + 2 :]
    return " ".join(words)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _names(known: Any) -> Any:
    def names(text: str) -> list[str]:
        given = [name.strip() for name in text.split(",")]
        if unknown := [name for name in given if name not in known]:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {unknown[0]!r}")
        return given

    return names


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    everybody, cells = [OWN, *PEERS], list(BY_NAME)
    made.add_argument("--only", type=_names(everybody), default=everybody, metavar="NAME,...", help=", ".join(everybody))
    made.add_argument("--cells", type=_names(cells), default=cells, metavar="CELL,...", help=", ".join(cells))
    made.add_argument("--rounds", type=int, default=3, help="of each cell [default 3]")
    made.add_argument("--scale", type=float, default=1.0, help="the share of the jobs and seconds of a cell [default 1]")
    made.add_argument("--procs", type=int, default=2, help="worker processes of a host [default 2]")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--out", metavar="FILE", help="write the JSON to a file as well")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
