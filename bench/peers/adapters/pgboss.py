"""pg-boss (Node.js). Newer releases than this one ask for a package that some indexes do not have yet."""

from bench.peers import install
from bench.peers.peer import GOROUTINES, Peer

PEER = Peer(
    name="pgboss",
    language="Node.js",
    install=lambda: install.node("pg-boss", "12.34"),
    program="pgboss.mjs",
    settings={
        "batchSize": "1,000, or the slots of the cell",
        "useListenNotify, notify": "true",
        "burstWhenBatchFull": "true",
        "pollingIntervalSeconds, notifyPollingIntervalSeconds": "0.5, the least",
        "supervise, schedule": "false",
        "processes": "one for each core",
    },
    rate=5_000,
    slots=1_000,
    unfinished="select 1 from pgboss.job where state < 'completed' limit 1",
    lacks={"nap": GOROUTINES},
)
