"""`python -m tests.chaos.lost_beats --seconds 200`: connections of a host that fall silent, while jobs of all lengths run on it.

Two hosts, each with a wire of its own (tests/proxy.py), and every setting at its default unless given. Again and again a host
loses the connection of its next beat, of its next two, or any that is open; nobody is told, and all others work. The next fault
comes when a beat has got through since: two may be lost, not three. Each job may be attempted once. In the end none was started
twice, and none discarded.
"""

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fastq.enqueue.client import Client
from fastq.postgres import db
from tests.chaos import ledger
from tests.chaos.app import Nap
from tests.chaos.processes import Host
from tests.chaos.servers import alone
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

LONGEST_JOB = 25.0  # s; longer than a host's time to live
PACE = 1.0  # s between two batches of jobs
AFTER = 3.0  # s at most from the first beat after a fault to the next fault on the same wire

BEATEN = "select max(expires_at)::text from fastq.process where supervisor like %s"
STATES = "select state::text, count(*)::int from fastq.job_archive group by 1"


def run(url: str, folder: Path, seconds: float, seed: int, longest: float = LONGEST_JOB, **settings: str) -> dict[str, Any]:
    """Let connections fall silent for so long, with these settings of the supervisors; return the account."""
    dice = random.Random(seed)
    faults: Counter[str] = Counter()
    with ExitStack() as stack:
        wires = [stack.enter_context(Proxy(url, {"beat": db.statement("process_beat")})) for _ in range(2)]
        hosts = []
        for place, wire in enumerate(wires):
            mine = folder / f"host-{place}"
            mine.mkdir()
            environment = {**os.environ, "FASTQ_DATABASE_URL": wire.url, "CHAOS_LEDGER": str(mine), "FASTQ_LOG_LEVEL": "info"}
            environment |= settings
            hosts.append(Host(1, 32, environment, mine))
            stack.callback(hosts[-1].clear)
        client = stack.enter_context(Client(url))
        for host in hosts:
            wait_for(host.workers, 30.0, "the first worker process")
        ids: list[int] = []
        until = time.monotonic() + seconds
        next_fault = [time.monotonic()] * len(wires)
        beaten = [""] * len(wires)  # as it was at the last fault
        while time.monotonic() < until:
            naps = [Nap(dice.choice((0.01, 0.1, 1.0, dice.random() * longest))) for _ in range(6)]
            ids += client.enqueue_many([*naps], max_attempts=1)
            for place, wire in enumerate(wires):
                if wire.lost % 20 == 19:
                    wire.give_up_lost()
                now = str(execute(url, BEATEN, f"%:{hosts[place].pid}:%"))
                if now == beaten[place] or wire.losing:
                    next_fault[place] = time.monotonic() + dice.random() * AFTER
                elif time.monotonic() >= next_fault[place]:
                    what = dice.choice(("a beat", "two beats", "any"))
                    faults[what] += 1
                    if what == "any":
                        wire.lose_one(dice)
                    else:
                        wire.lose("beat", 2 if what == "two beats" else 1)
                    beaten[place] = str(execute(url, BEATEN, f"%:{hosts[place].pid}:%"))
            time.sleep(PACE)
        wait_for(lambda: execute(url, "select count(*) from fastq.job") == [(0,)], 120.0, "the last job to end")
        for wire in wires:
            wire.restore()
        codes = [host.stop() for host in hosts]
        lost = sum(wire.lost for wire in wires)
    starts = Counter(record.job for place in range(2) for record in ledger.read(folder / f"host-{place}") if record.what == "S")
    states = dict(execute(url, STATES))
    said = "".join(path.read_text() for path in folder.glob("*/supervisors.log"))
    figures: dict[str, Any] = {
        "jobs": len(ids),
        "faults": dict(faults),
        "connections_lost": lost,
        "started_twice": sum(count > 1 for count in starts.values()),
        "never_started": len(set(ids) - set(starts)),
        "states": states,
        "rescued": said.count("jobs.rescued"),
        "stopped": codes,
        "seed": seed,
    }
    good = figures["started_twice"] == figures["never_started"] == 0 and states == {"completed": len(ids)}
    return {**figures, "passed": good and lost > 0}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.lost_beats", description=__doc__)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with alone() as (url, folder, _):
        figures = run(url, folder, options.seconds, options.seed)
    print(json.dumps(figures))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
