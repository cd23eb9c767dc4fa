"""The floor: raw SQL without a queue around it, which the others are measured by."""

import importlib.metadata
import sys

from bench.peers.install import ROOT
from bench.peers.peer import Peer

ALONE = "raw SQL works one job after the other, and tries none again"


def _install() -> tuple[list[str], str]:
    path = f"PYTHONPATH={ROOT / 'fastq' / 'bench' / 'cells'}"
    return ["env", path, sys.executable], f"psycopg {importlib.metadata.version('psycopg')}"


PEER = Peer(
    name="floor",
    language="Python",
    install=_install,
    program="floor_cells.py",
    settings={"batch": "5,000", "processes": "one for each core", "archive": "none"},
    rate=60_000,
    slots=1,
    unfinished="select 1 from job order by id limit 1",
    lacks=dict.fromkeys(("sleep", "nap", "cpu", "retry", "delay"), ALONE),
)
