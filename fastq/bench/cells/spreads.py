"""Cells that spread the same jobs: over many queues, and over several hosts; and what many queues cost that have nothing.

Called in the main thread of the program that measures, with a stage that it owns; a cell keeps nothing between two calls.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.bench.cells.cell import Cell, go
from fastq.bench.cells.meters import between

if TYPE_CHECKING:
    from fastq.bench.cells.cell import Figures, Stage

SECONDS = 1.0
"""Seconds of work of each run: these cells have three."""

QUEUES = (1, 16, 100)
"""Queues that jobs are spread over evenly."""

RESTING = 1_000
"""Queues that have nothing."""

HOSTS = (1, 2, 4)
PROCESSES = 4
"""Hosts that share a queue, and processes of all hosts together."""

SETTLE, REST = 3.0, 8.0
"""Seconds until an idle host is through with its start, and for which it is watched."""


def names(count: int) -> list[str]:
    """Return the names of so many queues; the first is `default`."""
    return ["default", *(f"q{number}" for number in range(1, count))]


def queues(stage: Stage) -> Figures:
    """Work off the same number of jobs, in one queue and in many; each process has a slot for each queue at least."""
    found: Figures = {}
    jobs, others = stage.size(SECONDS), 0.0
    for count in QUEUES:
        run = stage.drained("noop", jobs, names(count), slots=max(1, stage.system.slots // count))
        found[f"queues_{count}_per_s"] = run.jobs_per_s
        others = max(others, run.spent.others)
    ratio = found[f"queues_{QUEUES[-1]}_per_s"] / found["queues_1_per_s"]
    return {"many_to_one_percent": ratio * 100, **found, "others_percent": others * 100}


def resting(stage: Stage) -> Figures:
    """Watch a host whose queues have nothing."""
    found: Figures = {}
    others = 0.0
    for count in (RESTING, 1):
        stage.system.empty()
        with stage.working("noop", names(count), slots=1) as programs:
            go(programs)
            pids, meters = [program.pid for program in programs], stage.system.meters()
            time.sleep(SETTLE * stage.scale)
            before = meters.read(pids)
            time.sleep(REST * stage.scale)
            spent = between(before, meters.read(pids))
        found[f"queues_{count}_cpu_percent"] = (spent.workers + (spent.server or 0.0)) / spent.seconds * 100
        found[f"queues_{count}_transactions_per_s"] = spent.transactions / spent.seconds
        others = max(others, spent.others)
    return found | {"others_percent": others * 100}


def hosts(stage: Stage) -> Figures:
    """Work off the same jobs by as many processes, of one host and of several."""
    found: Figures = {}
    jobs, others = stage.size(SECONDS), 0.0
    for count in HOSTS:
        run = stage.drained("noop", jobs, procs=PROCESSES // count, hosts=count)
        found[f"hosts_{count}_per_s"] = run.jobs_per_s
        found[f"hosts_{count}_server_us"] = (run.spent.server or 0.0) / jobs * 1e6
        others = max(others, run.spent.others)
    more = found[f"hosts_{HOSTS[-1]}_server_us"] / max(1e-9, found["hosts_1_server_us"])
    return {"server_more_percent": (more - 1) * 100, **found, "others_percent": others * 100}


_OTHERS = {"others_percent": "of the machine that something else took meanwhile"}

MANY_QUEUES = Cell(
    "queues",
    "the same jobs over 1, 16 and 100 queues",
    {
        "many_to_one_percent": "the rate over 100 queues, of that with one",
        **{f"queues_{count}_per_s": f"jobs, over {count}" for count in QUEUES},
        **_OTHERS,
    },
    queues,
)
RESTING_QUEUES = Cell(
    "resting",
    "1,000 queues that have nothing, and one",
    {
        "queues_1000_cpu_percent": "of one core, programs and server, 1,000 queues",
        "queues_1000_transactions_per_s": "of the database",
        "queues_1_cpu_percent": "the same with one queue",
        "queues_1_transactions_per_s": "of the database",
        **_OTHERS,
    },
    resting,
    least=True,
)
MANY_HOSTS = Cell(
    "hosts",
    "one queue worked by four processes, of 1, 2 and 4 hosts",
    {
        "server_more_percent": "CPU of the server for a job, with 4 hosts more than with one",
        **{f"hosts_{count}_per_s": f"jobs, {count} hosts" for count in HOSTS},
        **{f"hosts_{count}_server_us": f"CPU of the server for a job, {count} hosts" for count in HOSTS},
        **_OTHERS,
    },
    hosts,
    least=True,
)
