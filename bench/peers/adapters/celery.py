"""Celery (Python) on Redis."""

from bench.peers import install
from bench.peers.peer import Peer

QUEUES = 1_000  # names that the cells use: `default`, and q1 to q999

PEER = Peer(
    name="celery",
    language="Python",
    install=lambda: install.python("celery[redis]"),
    program="celery_cells.py",
    settings={
        "pool": "prefork, a process for each core; threads in the cell nap",
        "worker_prefetch_multiplier": "64",
        "task_acks_late": "true",
        "task_ignore_result": "true",
        "flags": "--without-gossip --without-mingle --without-heartbeat",
    },
    rate=1_500,
    slots=1,
    all_cores=True,
    redis=True,
    unfinished=f"""
        if redis.call('hlen', 'unacked') > 0 or redis.call('llen', 'default') > 0 then return 1 end
        for number = 1, {QUEUES - 1} do if redis.call('llen', 'q' .. number) > 0 then return 1 end end
        return 0""",
    lacks={"sleep": "it runs no coroutines; functions that block, in threads, are in the cell nap"},
)
