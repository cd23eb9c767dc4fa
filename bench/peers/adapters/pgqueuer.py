"""PgQueuer (Python)."""

from bench.peers import install
from bench.peers.peer import Peer

PEER = Peer(
    name="pgqueuer",
    language="Python",
    install=lambda: install.python("pgqueuer[asyncpg]"),
    program="pgqueuer_cells.py",
    settings={
        "driver": "asyncpg, uvloop",
        "batch_size": "500, or the slots of the cell",
        "processes": "one for each core",
        "queues": "entrypoints",
    },
    rate=10_000,
    slots=500,
    unfinished="select 1 from pgqueuer limit 1",
    lacks={
        "nap": "functions that block are left out: its own benchmark prefers coroutines",
        "retry": "a job that fails has failed, unless it asks for another attempt itself",
    },
)
