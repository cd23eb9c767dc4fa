"""River (Go): set as its own `river bench` sets it."""

from bench.peers import install
from bench.peers.peer import GOROUTINES, Peer

PEER = Peer(
    name="river",
    language="Go",
    install=lambda: install.go("river", "github.com/riverqueue/river"),
    program="",
    settings={
        "FetchCooldown": "2 ms",
        "FetchPollInterval": "20 ms",
        "MaxWorkers": "1,000 for each core (2,000 on two, as `river bench`)",
        "enqueue by the batch": "InsertManyFast",
        "pool": "10 connections",
    },
    rate=20_000,
    slots=1_000,
    all_cores=True,
    unfinished="select 1 from river_job where state in ('available', 'running', 'retryable', 'scheduled') limit 1",
    lacks={"nap": GOROUTINES},
)
