"""The states of a child as its supervisor knows them: each arrow of the table fires, with real processes, and no other one."""

import os
import selectors
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from fastq import Config
from fastq.board import board
from fastq.board.board import Board
from fastq.board.extent import desk_count, ring_size
from fastq.host import places
from fastq.host.children import ARROWS, Child, ChildState
from fastq.host.fork_server import ForkServer
from fastq.host.places import Places
from fastq.host.registrar import Registrar
from fastq.work.modes import MODES
from tests.helpers import wait_for

pytestmark = pytest.mark.process

STARTING, WORKING, RECYCLING, STOPPING, ENDED = ChildState
ROOT = Path(__file__).parent.parent.parent


class Host:
    """A host of one place without its main loop: the tests step."""

    def __init__(self, url):
        config = Config(database_url=url, queues={"default": 1}, procs=1)
        self.board = Board.make([1], desk_count(config), ring_size(config), len(MODES))
        self.registrar = Registrar(config, url, self.board, lambda _: None)
        self.selector = selectors.DefaultSelector()
        self.fork_server = ForkServer(config, "tests.process.jobs:registry", ROOT, url, self.board)
        self.places = Places(config, self.board, self.fork_server, self.registrar, self.selector)
        self.services = (self.registrar, self.registrar.recovery)
        for service in self.services:
            service.start()

    def step(self):
        """Do what the supervisor does again and again."""
        for key, _ in self.selector.select(0.01):
            self.places.ended(key.data)
        self.places.fill()
        self.places.replace()

    def first(self):
        """Return the child that works, seated but not looked at yet."""
        return wait_for(lambda: self.places.fill() or self.places.first(), what="a child")

    def reach(self, child, state):
        wait_for(lambda: self.step() or child.state is state, what=f"a child that is {state.value}")

    def leave_desk(self, child):
        """Do what a process does that recycles; it goes on, as one with a long job does."""
        self.board.desk(child.desk)[board.PROCESS] = 0

    def close(self):
        self.places.stop()
        self.places.order("kill")
        wait_for(lambda: self.step() or not self.places.everybody(), what="the end of the children")
        self.fork_server.dismiss()
        for service in reversed(self.services):
            service.finish(0.0)
        wait_for(lambda: self.fork_server.ended() and all(service.ended for service in self.services), what="the end")


@pytest.fixture
def host(database):
    made = Host(database)
    yield made
    made.close()


@pytest.fixture
def entered(monkeypatch):
    """Give the states that children have entered, by child."""
    seen = {}
    enter = Child.enter

    def enter_and_tell(child, state):
        seen.setdefault(child, [child.state]).append(state)
        enter(child, state)

    monkeypatch.setattr(Child, "enter", enter_and_tell)
    return seen


def killed_while_starting(host, child):
    os.kill(child.pid, signal.SIGKILL)


def crashed(host, child):
    host.reach(child, WORKING)
    os.kill(child.pid, signal.SIGKILL)


def recycled(host, child):
    host.reach(child, WORKING)
    host.leave_desk(child)
    host.reach(child, RECYCLING)
    os.kill(child.pid, signal.SIGKILL)  # however its jobs end


def stopped_while_starting(host, child):
    host.places.stop()


def lost_its_number(host, child):
    host.reach(child, WORKING)
    host.registrar.lost = frozenset({child.number})


def followed_by_one_that_recycles(host, child):
    host.reach(child, WORKING)
    host.leave_desk(child)
    host.reach(child, RECYCLING)
    successor = wait_for(lambda: host.step() or host.places.first(), what="a successor")
    host.reach(successor, WORKING)
    host.leave_desk(successor)


WAYS = {
    killed_while_starting: [STARTING, ENDED],
    crashed: [STARTING, WORKING, ENDED],
    recycled: [STARTING, WORKING, RECYCLING, ENDED],
    stopped_while_starting: [STARTING, STOPPING, ENDED],
    lost_its_number: [STARTING, WORKING, STOPPING, ENDED],
    followed_by_one_that_recycles: [STARTING, WORKING, RECYCLING, STOPPING, ENDED],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_child_goes_through_its_states(host, entered, monkeypatch, way):
    monkeypatch.setattr(places, "LINGER", 0.05)
    child = host.first()

    way(host, child)
    host.reach(child, ENDED)

    assert entered[child] == WAYS[way]


def test_these_ways_take_every_arrow():
    assert {arrow for states in WAYS.values() for arrow in pairwise(states)} == set(ARROWS)


def test_a_child_that_has_ended_enters_no_state(host):
    child = host.first()
    os.kill(child.pid, signal.SIGKILL)
    host.reach(child, ENDED)

    with pytest.raises(AssertionError, match="from ended to working"):
        child.enter(WORKING)
