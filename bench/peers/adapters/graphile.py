"""Graphile Worker (Node.js): set as its page on performance sets it."""

from bench.peers import install
from bench.peers.peer import GOROUTINES, Peer

PEER = Peer(
    name="graphile",
    language="Node.js",
    install=lambda: install.node("graphile-worker"),
    program="graphile.mjs",
    settings={
        "concurrentJobs": "24 in each process, one process for each core",
        "maxPoolSize": "25",
        "localQueue": "size 500",
        "completeJobBatchDelay, failJobBatchDelay": "0",
        "queues": "task identifiers",
    },
    rate=35_000,
    slots=24,
    unfinished="select 1 from graphile_worker._private_jobs limit 1",
    lacks={
        "nap": GOROUTINES,
        "retry": "the delay before a second attempt is its own, e seconds, and cannot be set",
    },
)
