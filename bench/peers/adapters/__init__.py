"""The peers, by name: each module has one, as data. A new one is a module here, a program in `programs/`, and a line below."""

from bench.peers.adapters import bullmq, celery, dramatiq, floor, graphile, oban, pgboss, pgqueuer, procrastinate, river, rq
from bench.peers.peer import Peer

PEERS: dict[str, Peer] = {
    module.PEER.name: module.PEER
    for module in (floor, river, graphile, pgboss, pgqueuer, procrastinate, oban, bullmq, celery, dramatiq, rq)
}
