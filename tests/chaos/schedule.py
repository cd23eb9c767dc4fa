"""A schedule that ticks each second, while whoever leads is killed every few seconds: one row per tick, none missing."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos import witness
from tests.chaos.candidates import Candidates
from tests.chaos.result import Result
from tests.chaos.two_leaders import check_ticks
from tests.helpers import execute, wait_for

EVERY = 2.5  # s from one kill to the next
PATIENCE = 20.0
LAST = "select max(tick) from fastq.periodic_tick"


def run(url: str, folder: Path, seconds: float, ttl: float) -> Result:
    """Kill the leader again and again for so long, then look at the ticks."""
    witness.install(url)
    result = Result("schedule each second", 0)
    with Candidates(url, folder, ttl, count=3, settings={"CHAOS_PERIODIC": "1"}) as candidates, ThreadPoolExecutor(1) as hand:
        wait_for(lambda: execute(url, LAST) != [(None,)], PATIENCE, "the first tick")
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            place = candidates.leader()
            before = candidates.eye.until(lambda held: held.pid is not None)
            at = time.monotonic()
            candidates.places[place].signal(signal.SIGKILL)
            restarted = hand.submit(candidates.restart, place)
            candidates.eye.until(lambda held, before=before: held.pid is not None and held.term > before.term)
            result.add(time.monotonic() - at)
            restarted.result()
            result.cycles += 1
            time.sleep(max(0.0, at + EVERY - time.monotonic()))
        ((now,),) = execute(url, "select clock_timestamp() + interval '1 s'")
        wait_for(lambda: execute(url, LAST)[0][0] >= now, PATIENCE, f"a tick after {now}")
        result.testify(witness.hear(url), candidates.eye.terms)
    check_ticks(url, result)
    result.figures["seconds"] = round(time.monotonic() - began)
    return result
