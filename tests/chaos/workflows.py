"""Workflows under fire: `python -m tests.chaos.workflows --jobs 10000 --kills 100 --leader-kills 10 --server-kills 3`.

Two hosts work workflows of so many jobs, random graphs in which some jobs fail, and a chord with one discarded member, while
worker processes, leading supervisors and the server are killed. A ledger beside the database says when each attempt began and
ended, and the account is made of that and of an oracle: each job that has to run ran, none before those in front of it had ended,
each step has the state that its graph gives it, each callback was enqueued once, and the leader's audit has repaired nothing.
"""

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastq import Client, Enqueue
from tests import flows
from tests.chaos import ledger
from tests.chaos.gated import Fire, attempts
from tests.chaos.processes import Host
from tests.chaos.servers import alone
from tests.chaos.workflows_app import CalledArgs, StepArgs
from tests.flows import CANCELLED, COMPLETED, DISCARDED, After
from tests.helpers import execute, wait_for

NEAR = 200  # places between a step and those before it, at most: a graph is some hundred steps deep
EVENTS = ("on_success", "on_finish", "on_discard")
ENDED = "select coalesce(sum(completed + cancelled + discarded), 0)::int from fastq.workflow"
OPEN = "select (select count(*) from fastq.workflow where ended_at is null) + (select count(*) from fastq.job)"
STEPS = "select step, state::text from fastq.workflow_step where workflow = %s order by step"
COUNTS = "select completed, cancelled, discarded from fastq.workflow where id = %s"
ARCHIVED = "select state::text from fastq.job_archive where id = any (%s) order by id"
CALLED = (
    "select args ->> 'workflow', args ->> 'event', count(*)::int from fastq.job_archive where kind = 'chaos_called' group by 1, 2"
)


@dataclass
class Plan:
    """A workflow to run: its graph, how its jobs end, and the ids that it was given."""

    name: str
    after: After
    fates: list[str]
    id: int = 0
    jobs: tuple[int, ...] = ()


def graph(dice: random.Random, jobs: int, name: str) -> Plan:
    """Draw a graph of which one job in a hundred fails, or so."""
    after: list[dict[int, bool]] = []
    for place in range(jobs):
        near = range(max(0, place - NEAR), place)
        parents = dice.sample(near, min(len(near), dice.choice((0, 1, 1, 2, 3))))
        after.append({parent: dice.random() < 0.7 for parent in parents})
    fates = dice.choices((COMPLETED, CANCELLED, DISCARDED), (97, 2, 1), k=jobs)
    return Plan(name, after, fates)


def chord(jobs: int) -> Plan:
    """Make a chord of which one member is discarded: the last job is cancelled, the one beside it runs."""
    members = jobs - 2
    after = [{} for _ in range(members)] + [dict.fromkeys(range(members), False), dict.fromkeys(range(members), True)]
    return Plan("chord", after, [COMPLETED] * (members // 2) + [DISCARDED] + [COMPLETED] * (jobs - members // 2 - 1))


def enqueue(client: Client, plan: Plan, dice: random.Random, longest: float) -> None:
    """Enqueue a workflow; note the ids."""

    def item(place: int) -> Enqueue:
        fate = plan.fates[place]
        return Enqueue(StepArgs(fate, dice.random() ** 4 * longest), max_attempts=3 if fate == DISCARDED else 100)

    callbacks = {event: CalledArgs(plan.name, event) for event in EVENTS}
    started = client.enqueue_workflow(flows.built(plan.name, plan.after, item, **callbacks))
    plan.id, plan.jobs = started.id, started.ids


def run(url: str, folder: Path, options: argparse.Namespace, crash: Callable[[], None]) -> dict[str, Any]:
    """Enqueue, kill, wait, and make the account; `crash` ends the server without ceremony and starts it again."""
    dice, began = random.Random(options.seed), time.monotonic()
    plans = [graph(dice, options.jobs, f"graph-{number}") for number in range(options.graphs)] + [chord(options.jobs)]
    hosts = []
    for place in range(2):
        ledgers = folder / f"host-{place}"
        ledgers.mkdir()
        environment = {**os.environ, "FASTQ_DATABASE_URL": url, "CHAOS_LEDGER": str(ledgers)}
        environment |= {"FASTQ_LEASE_TTL": "3", "FASTQ_MAX_CRASHES": "100"}
        hosts.append(Host(options.procs // 2, options.threads, environment, ledgers, "tests.chaos.workflows_app:registry"))
    try:
        fire = Fire(url, hosts, options, crash)
        strikes, total = len(fire.plan), options.jobs * len(plans)
        with Client(url) as client:
            for plan in plans:
                enqueue(client, plan, dice, options.longest)
        while fire.plan:
            progress = execute(url, ENDED)[0][0] / total
            if progress >= 1 - len(fire.plan) / strikes:
                fire.strike()
            else:
                time.sleep(0.02)
        wait_for(lambda: execute(url, OPEN) == [(0,)], 300.0, "the last workflow to end")
        codes = [host.stop() for host in hosts]
    finally:
        for host in hosts:
            host.clear()
    return account(url, folder, hosts, plans) | {
        "seconds": round(time.monotonic() - began, 1),
        "killed": fire.done,
        "stopped": codes,
        "seed": options.seed,
    }


def account(url: str, folder: Path, hosts: list[Host], plans: list[Plan]) -> dict[str, Any]:
    """Hold the ledger and the tables against the graphs."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    made = 0
    for place, host in enumerate(hosts):
        for one in attempts(ledger.read(folder / f"host-{place}"), host.faults):
            made += 1
            first[one.job] = min(one.began, first.get(one.job, one.began))
            last[one.job] = max(one.ended, last.get(one.job, 0))
    called = {(name, event): count for name, event, count in execute(url, CALLED)}
    said = "".join(path.read_text() for path in folder.glob("*/supervisors.log"))
    figures: Counter[str] = Counter()
    for plan in plans:
        ended = flows.ends(plan.after, plan.fates)
        must = {plan.jobs[place] for place in flows.runs(plan.after, ended)}
        ran = first.keys() & {*plan.jobs}
        figures["never_ran"] += len(must - ran)
        figures["ran_in_vain"] += len(ran - must)
        figures["too_early"] += sum(
            first[plan.jobs[place]] < max((last.get(plan.jobs[parent], 0) for parent in before), default=0)
            for place, before in enumerate(plan.after)
            if plan.jobs[place] in ran
        )
        told, stored = execute(url, STEPS, plan.id), execute(url, ARCHIVED, list(plan.jobs))
        figures["wrong_ends"] += sum(state != right for (_, state), right in zip(told, ended, strict=True))
        figures["wrong_jobs"] += sum(state != right for (state,), right in zip(stored, ended, strict=True))
        figures["wrong_counts"] += execute(url, COUNTS, plan.id) != [tuple(map(ended.count, (COMPLETED, CANCELLED, DISCARDED)))]
        right = {event: int(event in flows.called(ended)) for event in EVENTS}
        figures["wrong_callbacks"] += sum(called.get((plan.name, event), 0) != count for event, count in right.items())
        figures["cancelled_for_others"] += len(plan.jobs) - len(must)
    figures["repaired"] = said.count("workflow.repaired")
    figures["events_left"] = execute(url, "select count(*) from fastq.workflow_event")[0][0]
    bad = [name for name in figures if name != "cancelled_for_others"]
    facts = {"workflows": len(plans), "jobs": sum(len(plan.jobs) for plan in plans), "attempts": made}
    return {**facts, **figures, "passed": not any(figures[name] for name in bad)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.workflows", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000, help="of each workflow")
    parser.add_argument("--graphs", type=int, default=1, help="random graphs, beside the chord")
    parser.add_argument("--kills", type=int, default=20, help="worker processes to SIGKILL")
    parser.add_argument("--leader-kills", type=int, default=2, help="leading supervisors to SIGKILL")
    parser.add_argument("--server-kills", type=int, default=1, help="crashes of Postgres")
    parser.add_argument("--procs", type=int, default=4, help="worker processes, on two hosts")
    parser.add_argument("--threads", type=int, default=8, help="of each worker process")
    parser.add_argument("--longest", type=float, default=0.1, help="seconds that a job naps; most nap for much less")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with alone() as (url, folder, crash):
        figures = run(url, folder, options, crash)
    print(json.dumps(figures))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
