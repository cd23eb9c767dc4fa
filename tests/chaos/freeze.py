"""Freeze the leader at points inside its chores, let another lead for a while, and let the first one go on where it was.

The points, in turn:
    sent CHORE     its fenced statement is on the wire, kept there until another leads, and then delivered
    inside CHORE   its statement runs in Postgres, behind its fence and before its commit (witness.py: failpoints)
    anywhere       wherever the signal finds it, under load

After each cycle the database must have committed no write of a stale term. That this would be seen is shown by `unfenced`: a copy
of the project whose statements do not ask for the term.
"""

import random
import re
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path

from fastq.postgres import db
from tests.chaos import witness
from tests.chaos.candidates import Candidates
from tests.chaos.load import Load
from tests.chaos.processes import ROOT
from tests.chaos.result import Result
from tests.chaos.witness import Failpoint
from tests.helpers import wait_for
from tests.proxy import Proxy

STATEMENTS = {"promote": "job_promote", "rescue": "job_rescue", "periodic": "periodic_enqueue"}
POINTS = (*(f"sent {chore}" for chore in STATEMENTS), *(f"inside {chore}" for chore in STATEMENTS), "anywhere")
PATIENCE = 15.0
SCHEDULES = 5

FENCE = re.compile(r"select from fastq\.lease\n    where name = \$1::text and holder = .*?\n    for key share", flags=re.DOTALL)
NO_FENCE = "select from (values ($1::text, $2::text, $3::bigint)) as whatever (name, holder, term)"


def run(
    url: str, folder: Path, cycles: int, ttl: float, points: tuple[str, ...] = POINTS, package: Path = ROOT, name: str = "freeze"
) -> Result:
    """Freeze the leader once per cycle, at one point after the other. `package` is the folder that has the project."""
    witness.install(url, failpoints=True)
    result, dice = Result(name, cycles), random.Random(1)
    texts = {chore: _text(package, statement) for chore, statement in STATEMENTS.items()}
    reached = dict.fromkeys(points, 0)
    with ExitStack() as stack:
        wires = [stack.enter_context(Proxy(url, texts)) for _ in range(2)]
        settings = {"CHAOS_PERIODIC": str(SCHEDULES), "FASTQ_PROCESS_TTL": "5", "FASTQ_QUEUES": "default=2"}
        candidates = stack.enter_context(
            Candidates(url, folder, ttl, settings=settings, route=lambda place, url: wires[place].url_of(url), cwd=package)
        )
        stack.enter_context(Load(url, orphans=True))
        for cycle in range(cycles):
            point = points[cycle % len(points)]
            reached[point] += one(url, candidates, wires, point, result, dice)
        fenced = sum(supervisor.said("chore.fenced") for supervisor in candidates.places)
        result.testify(witness.hear(url), candidates.eye.terms)
    result.problems += [
        f"the point '{point}' was never reached" for point, count in reached.items() if not count and cycles >= len(points)
    ]
    result.figures["fenced"] = fenced
    return result


def one(url: str, candidates: Candidates, wires: list[Proxy], point: str, result: Result, dice: random.Random) -> bool:
    """Run one cycle; tell whether the leader was caught at the point."""
    candidates.await_ready()
    place = candidates.leader()
    leader, eye = candidates.places[place], candidates.eye
    before = eye.until(lambda held: held.pid == leader.pid)
    lost = leader.said("lease.lost")
    time.sleep(dice.random() * candidates.ttl * 0.5)
    where, _, chore = point.partition(" ")
    with ExitStack() as stack:
        caught = True
        if where == "sent":
            wires[place].hold(chore)
            caught = reached(wires[place].held)
        elif where == "inside":
            failpoint = stack.enter_context(Failpoint(url, chore))
            caught = reached(lambda: failpoint.reached_by(leader.role))
        at = time.monotonic()
        leader.signal(signal.SIGSTOP)
        if where == "inside":
            caught = failpoint.reached_by(leader.role)
        try:
            eye.until(lambda held: held.term > before.term and held.pid not in (None, leader.pid))
            result.add(time.monotonic() - at)
            # What was sent arrives while its sender still stands, and before the new leader has done the same: written
            # twice it would change nothing, with a fence or without.
            wires[place].release()
            time.sleep(max(0.1, at + 2 * candidates.ttl - time.monotonic()))
        finally:
            leader.signal(signal.SIGCONT)
    wait_for(lambda: leader.said("lease.lost") > lost, what="the old leader to find out")
    return caught


def reached(condition) -> bool:
    """Wait for a point that is reached within seconds, or not in this cycle."""
    try:
        wait_for(condition, PATIENCE)
    except AssertionError:
        return False
    return True


def unfenced(folder: Path) -> Path:
    """Copy the project, and take the fence out of every statement."""
    target = folder / "unfenced"
    shutil.copytree(ROOT / "fastq", target / "fastq", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (target / "fastq" / "sql").glob("*.sql"):
        path.write_text(FENCE.sub(lambda _: NO_FENCE, path.read_text()))
    for statement in STATEMENTS.values():
        assert NO_FENCE in _text(target, statement), f"{statement}.sql has another fence than expected"
    return target


def _text(package: Path, name: str) -> str:
    """Return a statement as the supervisors of this package send it."""
    if package == ROOT:
        return db.statement(name)
    text = (package / "fastq" / "sql" / f"{name}.sql").read_text()
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
