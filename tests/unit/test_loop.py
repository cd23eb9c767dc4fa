"""The slots of the event loop: what one job leaves in its task is nothing to the next."""

import asyncio
import decimal
from contextvars import ContextVar
from dataclasses import dataclass

import pytest

from fastq.args.kinds import Args
from fastq.board.board import Board
from fastq.jobs.outcome import Output
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker
from fastq.work.codec.codec import decode
from fastq.work.execute.loop import YIELD_EVERY, Loop
from fastq.work.shared.lane import Outbox
from tests.codec.claims import claimed
from tests.helpers import wait_for

NAME: ContextVar[str] = ContextVar("NAME")
registry = Registry()


@dataclass
class SlotArgs(Args, kind="slot"):
    what: str


@registry.register
class SlotWorker(Worker[SlotArgs]):
    async def work(self, job):
        what, found = job.args.what, NAME.get("nobody")
        if what == "set":
            NAME.set("somebody")
        elif what == "set and reset":
            NAME.reset(NAME.set("somebody"))
        elif what == "decimal":
            decimal.getcontext().prec = 3
            return f"{decimal.Decimal(1) / 3}"
        elif what == "divide":
            return f"{decimal.Decimal(1) / 3:.6f}"
        elif what == "await":
            NAME.set("somebody")
            await asyncio.sleep(0)
            return NAME.get("nobody")
        elif what == "cancel the task":
            asyncio.current_task().cancel()  # lands at the next await of whoever has the task then
            return None
        return found


@pytest.fixture
def run():
    """Give a function that works jobs in one slot, all of them in the inbox from the start, and returns what they came to."""

    def run_all(*whats):
        called = []
        outbox = Outbox()
        loop = Loop(outbox, 0)
        lane = loop.lane(Board.make([1], 1, 1).lane(0, 0, 0), 1, lambda: called.append(1))
        loop.start()
        lane.hungry = True
        lane.put(decode(claimed([("slot", b'{"what":"%s"}' % what.encode()) for what in whats]), registry.workers)[0], 0)
        wait_for(lambda: len(outbox.jobs) == len(whats), 5.0, f"the end of {len(whats)} jobs")
        wait_for(lambda: called, 5.0, "the slot to ask for more")
        assert [job.id for job in outbox.jobs] == list(range(1, len(whats) + 1))
        return [job.outcome.json.strip('"') if isinstance(job.outcome, Output) else job.outcome for job in outbox.jobs]

    return run_all  # the threads of the loops end with this process, as in a worker process


def test_a_context_variable_of_one_job_is_not_seen_by_the_next(run):
    assert run("set", "set", "set and reset", "set", "look") == ["nobody"] * 5
    assert run("await", "await", "look") == ["somebody", "somebody", "nobody"]


def test_the_precision_of_one_job_is_not_that_of_the_next(run):
    assert run("decimal", "divide", "decimal") == ["0.333", "0.333333", "0.333"]


def test_slots_that_others_start_see_nothing_of_theirs(run):
    NAME.set("the starter")

    assert run("look", "set", "look") == ["nobody"] * 3


def test_a_job_that_cancels_its_task_as_it_ends_does_not_cancel_the_next(run):
    assert run("cancel the task", "await", "await") == [None, "somebody", "somebody"]


def test_a_job_that_cancels_its_task_as_it_ends_keeps_no_slot(run):
    assert run("cancel the task", *["look"] * 2 * YIELD_EVERY) == [None, *["nobody"] * 2 * YIELD_EVERY]
