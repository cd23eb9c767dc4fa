"""Dramatiq (Python) on Redis."""

from bench.peers import install
from bench.peers.peer import Peer

PEER = Peer(
    name="dramatiq",
    language="Python",
    install=lambda: install.python("dramatiq[redis]"),
    program="dramatiq_cells.py",
    settings={"worker_threads": "8 in each process, the default; one process for each core", "results": "none"},
    rate=2_500,
    slots=8,
    redis=True,
    unfinished="""
        for _, key in ipairs(redis.call('keys', 'dramatiq:*.msgs')) do if redis.call('hlen', key) > 0 then return 1 end end
        return 0""",
    lacks={"sleep": "coroutines run on one thread of their own beside its threads, and each holds one of these"},
)
