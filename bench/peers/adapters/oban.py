"""Oban (Python)."""

from bench.peers import install
from bench.peers.peer import Peer

PEER = Peer(
    name="oban",
    language="Python",
    install=lambda: install.python("oban", needs=(3, 12)),
    program="oban_cells.py",
    settings={"limit": "100 in each process, one process for each core"},
    rate=1_000,
    slots=100,
    unfinished="select 1 from oban_jobs where state in ('available', 'executing', 'retryable', 'scheduled') limit 1",
    lacks={"nap": "its workers are coroutines, which the cell sleep asks for"},
)
