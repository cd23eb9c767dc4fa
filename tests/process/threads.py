"""The threads of a worker process without the process: what tests of the producer start, and the jobs that they give it."""

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker
from fastq.board import board
from fastq.board.board import Board
from fastq.board.extent import ring_size
from fastq.config import Config
from fastq.postgres import db
from fastq.work.claim.producer import Producer
from fastq.work.complete.completer import Completer
from fastq.work.execute.threads import Threads
from fastq.work.shared.away import Away
from fastq.work.shared.held import Held
from fastq.work.shared.lane import Feed, Outbox
from tests.helpers import wait_for

JOBS, SLOTS = 4, 6  # some executors stay free for what comes later
TOLD = []  # ids, as their jobs start
OPEN = threading.Event()  # lets jobs that hold end

registry = Registry()


@dataclass
class Hold(Args, kind="hold"):
    hold: bool = True


@registry.register
class HoldWorker(Worker[Hold]):
    def work(self, job: Job[Hold]) -> None:
        TOLD.append(job.id)
        if job.args.hold:
            OPEN.wait(20)


@dataclass
class Seat:
    """What a producer needs to know of its seat."""

    number: int
    wake_read: int
    wake_write: int


@dataclass
class Surroundings:
    """What a producer needs of its process, without the process."""

    config: Config
    seat: Seat
    board: Board
    desk: memoryview
    feeds: list
    outbox: Outbox
    completer: Completer
    modes: list

    def __post_init__(self):
        self.held = Held(self)
        self.away = Away(self.config, self.held)


@contextmanager
def working(url, claim_url, *, slots=SLOTS, **settings):
    """Run the threads of a process with one queue; give its producer and the words of its cursor."""
    config = Config(queues={"default": slots}, **({"batch": JOBS} | settings))  # a claim that is full: there is backlog
    shared = Board.make([slots], 1, ring_size(config))
    seat = Seat(1, *os.pipe())
    outbox = Outbox()
    completer = Completer(config, outbox, lambda: db.connect(url, role="completer"), shared.desk(0))
    threads = Threads(outbox, 0)
    lane = threads.lane(shared.lane(0, 0, 0), slots, lambda: producer.wake())  # noqa: PLW0108 - it is made below
    feed = Feed(0, "default", [lane])
    around = Surroundings(config, seat, shared, shared.desk(0), [feed], outbox, completer, [threads])

    def connect():
        opened = db.connect(claim_url, role="producer")
        around.desk[board.SESSIONS[0]] = opened.backend_pid
        return opened

    producer = Producer(around, registry.workers, connect)
    cursor = shared.cursor(0)
    cursor.mark_at = 1  # a mark of long ago: the first claim is followed by the look whether it can be moved
    parts = (completer, threads, producer)
    for part in parts:
        part.start()
    try:
        yield producer, cursor
    finally:
        OPEN.set()
        for part in reversed(parts):
            part.stop()
            part.finish(time.monotonic() + 5)
            wait_for(lambda part=part: part.ended, what="its end")
        for fd in (seat.wake_read, seat.wake_write):
            os.close(fd)
