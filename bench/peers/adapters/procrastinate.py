"""Procrastinate (Python)."""

from bench.peers import install
from bench.peers.peer import Peer

PEER = Peer(
    name="procrastinate",
    language="Python",
    install=lambda: install.python("procrastinate"),
    program="procrastinate_cells.py",
    settings={
        "concurrency": "20 in each process, one process for each core",
        "delete_jobs": "successful",
        "connector": "PsycopgConnector",
    },
    rate=600,
    slots=20,
    unfinished="select 1 from procrastinate_jobs where status in ('todo', 'doing') limit 1",
)
