"""BullMQ (Node.js) on Redis."""

from bench.peers import install
from bench.peers.peer import GOROUTINES, Peer

QUEUES = 1_000  # names that the cells use: `default`, and q1 to q999

PEER = Peer(
    name="bullmq",
    language="Node.js",
    install=lambda: install.node("bullmq", "latest", "ioredis"),
    program="bullmq.mjs",
    settings={"concurrency": "50 in each process, one process for each core", "removeOnComplete": "true"},
    rate=10_000,
    slots=50,
    redis=True,
    unfinished=f"""
        local function left(name)
            local key = 'bull:' .. name
            local listed = redis.call('llen', key .. ':wait') + redis.call('llen', key .. ':active')
            return listed + redis.call('zcard', key .. ':delayed')
        end
        if left('default') > 0 then return 1 end
        for number = 1, {QUEUES - 1} do if left('q' .. number) > 0 then return 1 end end
        return 0""",
    lacks={"nap": GOROUTINES},
)
