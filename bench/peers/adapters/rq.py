"""RQ (Python) on Redis."""

from bench.peers import install
from bench.peers.peer import Peer

ONE = "a worker has one job at a time: 200 would be 200 processes"

PEER = Peer(
    name="rq",
    language="Python",
    install=lambda: install.python("rq"),
    program="rq_cells.py",
    settings={"worker": "SimpleWorker, which does not fork for a job; one for each core", "result_ttl": "0"},
    rate=800,
    slots=1,
    redis=True,
    unfinished="""
        local function left(key)
            local name = string.gsub(key, 'rq:queue:', '')
            return redis.call('llen', key) + redis.call('zcard', 'rq:wip:' .. name) + redis.call('zcard', 'rq:scheduled:' .. name)
        end
        for _, key in ipairs(redis.call('smembers', 'rq:queues')) do if left(key) > 0 then return 1 end end
        return 0""",
    lacks={"sleep": ONE, "nap": ONE},
)
