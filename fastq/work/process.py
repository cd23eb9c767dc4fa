"""One worker process: put producer, modes of executing and completer together, watch over them, take them down in order.

Runs in a child of the fork server. The main thread is the watchdog: it listens to the supervisor on a pipe, ticks, and
decides how the process ends; the work is done by the other threads. The child inherits no connection and no thread. The
supervisor wipes our desk on the board before we start; from then on only this process writes it, each word by one thread
(board.py), and the supervisor reads it.

Ends:
    stop         stop claiming; hand back jobs that have not started; let running jobs and singletons end until
                 FASTQ_SHUTDOWN_TIMEOUT, then cancel them and hand the jobs back; write all completions; exit 0
    kill         hand everything back at once, exit within a second
    recycle      the watchdog part has given up a slot, or `Singletons` a function (each counts its own in `stuck`, `_watch` adds
                 them up): leave the desk, so that the supervisor seats a successor beside us, or since it has seated one (we were
                 silent). Then stop as above, but let the other jobs run up to their own timeouts; exit RECYCLED
    alone        the supervisor is gone (its pipe closed, or its death signal came): exit at once. Another host's leader
                 or the next supervisor gives our jobs back, and nothing of ours may run beside theirs.

Also at its end it obeys the supervisor's `cancel`, and `stop` and `kill` end it sooner.
It deliberately repairs nothing that a new process repairs: an exception in a thread of ours ends the process.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from setproctitle import setproctitle

from fastq import app
from fastq.board import board
from fastq.board.board import Board
from fastq.board.extent import desk_count, ring_size
from fastq.errors import FastqError
from fastq.events import emit
from fastq.jobs.outcome import Release
from fastq.leases.lease import identity, number_of
from fastq.postgres import db
from fastq.postgres.kept import cut_overdue
from fastq.service import Service
from fastq.work.claim.again import claim_again
from fastq.work.claim.producer import Producer
from fastq.work.complete.completer import Completer
from fastq.work.complete.hand_back import hand_back
from fastq.work.complete.tally import Tally, Untold
from fastq.work.execute.watchdog import Watchdog
from fastq.work.forwarder import Forwarder
from fastq.work.inboxes import Inboxes
from fastq.work.modes import MODES, modes_for
from fastq.work.notes import Notes
from fastq.work.reach import give_jobs_the_database
from fastq.work.scribe import Scribe
from fastq.work.seat import BOOT_FAILED, BROKEN, RECYCLED, end, sit_down
from fastq.work.shared import forks
from fastq.work.shared.away import Away
from fastq.work.shared.held import Held
from fastq.work.shared.lane import Call, Feed, Outbox
from fastq.work.singletons import Singletons
from fastq.work.stacks import Stacks
from fastq.work.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.postgres.db import Connection
    from fastq.work.seat import Seat

TICK = 0.1
"""Seconds between two looks of the watchdog: how late a timeout can be. A guess; not measured."""

CANCEL_GRACE = 1.0
"""Seconds that cancelled jobs get to end at a stop before they are handed back regardless."""

LISTEN = 0.01
"""Seconds between two looks at the jobs that the end waits for: nobody notices so little when a host stops."""

KILL_WAIT = 0.5
"""Seconds that the completer gets when the process is killed: SIGKILL comes 0.6 s after the word."""

FLUSH_TIMEOUT = 5.0
"""Seconds that completions get to be written at the end: a database that restarts is back by then."""


def main(seat: Seat) -> NoReturn:
    """Be a worker process until told to end; never returns."""
    sit_down(seat)
    try:
        process = Process(seat)
    except FastqError as error:
        emit("process.boot_failed", level=logging.ERROR, place=seat.place, error=error)
        end(BOOT_FAILED)
    except BaseException as error:  # noqa: BLE001 - the app may raise anything while it is imported
        sys.excepthook(type(error), error, error.__traceback__)
        end(BOOT_FAILED)
    try:
        code = process.run()
    except BaseException as error:  # noqa: BLE001 - a job has closed our pipes, say: the end must not wait for threads of the user's
        sys.excepthook(type(error), error, error.__traceback__)
        process.broke()
        code = BROKEN
    process.leave(code)


class Process:
    """The parts of one worker process, which are not replaced, and the main thread's loop.

    The main thread alone writes the attributes, but for `_failed`, which whichever thread broke sets. Parts call `_connect` and
    `_wake_producer` in their own threads; `_thread_broke` runs in the thread that broke.
    """

    def __init__(self, seat: Seat) -> None:
        config = seat.config
        self.seat, self.config = seat, config
        registry = app.load(seat.target, seat.app_dir)
        workers, singletons = registry.workers, registry.singletons if seat.place == 0 else {}
        give_jobs_the_database(seat.url, config)
        self.outbox = Outbox()
        self.modes = modes_for(workers.values(), self.outbox)
        self._sit_down(stands=bool(singletons))
        self.feeds = [self._feed(number, queue) for number, queue in enumerate(config.concurrency)]
        tally = Tally() if config.stats else Untold()
        self.completer = Completer(config, self.outbox, lambda: self._connect("completer", 1), self.desk, tally)
        self.notes = Notes(lambda: db.session(config, seat.url, "progress"))
        self.scribe = Scribe(config.job_log_level, lambda: db.session(config, seat.url, "logs"))
        self.forwarder = Forwarder(config, lambda: db.session(config, seat.url, "events"))
        self.held = Held(self)
        self.away = Away(config, self.held)
        self.producer = Producer(self, workers, lambda: self._connect("producer", 0))
        self.watchdog = Watchdog(self.modes, self.outbox, config.timeout_grace, self.producer.holds)
        self.singletons = Singletons(config, seat.url, singletons)
        self.stacks = Stacks(seat.number, self.modes, self.held, lambda: db.session(config, seat.url, "stacks"))
        self._inboxes = Inboxes(self.feeds)
        self._parts = self._in_order(works=bool(workers))
        self._orders: dict[str, Callable[..., object]] = {
            "lease": self.singletons.hint,
            "events": self.forwarder.hint,
            "cancel": lambda *ids: self.watchdog.cancel(set(map(int, ids))),
            "recycle": self._give_place_up,
            "stacks": self.stacks.ask,
        }
        self._failed = threading.Event()
        self._stop_read, self._stop_write = os.pipe()
        self._poller = select.poll()
        for fd in (seat.control_fd, self._stop_read):
            self._poller.register(fd, select.POLLIN)
        self._pending = b""  # of a line that has not come whole
        self._replaced = False  # the supervisor has seated another process in our place
        self._end_by: float | None = None  # monotonic time until which running jobs may end; set when told to stop

    def _in_order(self, *, works: bool) -> list[Service]:
        """List the parts as they start; they stop from the last to the first.

        The completer takes the jobs that the others still hand on, so it starts first and stops last; behind it only the
        forwarder, which tells of its last jobs. The singletons end beside the jobs, so they are told first. `away` ticks first:
        it takes jobs back that nobody may start. An app of singletons alone has no producer.
        """
        producer = [self.producer] if works else []
        writers = [self.forwarder, self.completer, self.notes, self.scribe, self.stacks]
        watching = [self.watchdog, self.singletons, Telling(self.desk, lambda: self.producer.held)]
        return [self.away, *writers, *self.modes, self._inboxes, *producer, *watching]

    def _sit_down(self, *, stands: bool) -> None:
        """Write our number to our desk on the board, and whether we stand for singletons."""
        seat, config = self.seat, self.config
        concurrency = list(config.concurrency.values())
        self.board = Board(seat.board_fd, concurrency, desk_count(config), ring_size(config), len(MODES))
        self.desk = self.board.desk(seat.desk)
        self.desk[board.PROCESS] = seat.number
        self.desk[board.TICKED] = time.monotonic_ns()
        self.desk[board.STANDS] = number_of(identity()) if stands else 0

    def _feed(self, number: int, queue: str) -> Feed:
        """Make a queue's cursor, and a lane for it in each mode."""
        config, boards = self.config, self.board.lanes(self.seat.desk, number)
        slots = config.concurrency[queue]
        call = Call(number, self._wake_producer)
        return Feed(number, queue, [mode.lane(boards[mode.number], slots, call) for mode in self.modes], call)

    def run(self) -> int:
        """Start the threads, watch until told to end, end; return the exit code."""
        threading.excepthook = self._thread_broke
        forks.guard(lambda: os.write(self._stop_write, b"!"))
        gc.freeze()
        for part in self._parts:
            part.start()
        return self._watch()

    def leave(self, code: int) -> NoReturn:
        """End with this code, and note that it is ours: a job may end its process with any."""
        if self._failed.is_set():
            self._tell_ended()
        self.desk[board.LEFT] = 1
        end(code)

    def broke(self) -> None:
        """Note that this process ends because something of it broke."""
        self._failed.set()

    def _tell_ended(self) -> None:
        """Show the supervisor which jobs have ended and are not written: one of them may have broken this process."""
        unwritten = [*self.outbox.jobs.copy(), *self.completer.batch, *self.completer.writer.aside]
        ended = {job.id for job in unwritten if type(job.outcome) is not Release}
        for lane in (lane for feed in self.feeds for lane in feed.lanes):
            lane.board.tell_ended(ended)

    def _watch(self) -> int:
        """Tick, listen to the supervisor; return the exit code when the end has been carried out."""
        title_at = 0.0
        while self._end_by is None:
            self._listen(TICK)
            self._tick()
            if self._failed.is_set():
                return BROKEN
            if (stuck := sum(part.stuck for part in self._parts)) or self._replaced:
                emit("process.recycles", level=logging.WARNING, number=self.seat.number, threads=stuck)
                self.desk[board.PROCESS] = 0  # nobody's desk: the supervisor seats a successor
                return self._stop(RECYCLED)
            if time.monotonic() - title_at > 1.0:
                title_at = time.monotonic()
                self._show_title()
        return self._stop(0)

    def _listen(self, seconds: float) -> None:
        """Wait so long for words of the supervisor, and obey."""
        lines: list[bytes] = []
        for fd, _ in self._poller.poll(seconds * 1000):
            heard = os.read(fd, 65_536)
            if fd == self._stop_read:
                lines.append(b"stop")
            elif not heard:
                end(BROKEN)  # alone: nobody beats for us any longer
            else:
                *whole, self._pending = (self._pending + heard).split(b"\n")
                lines += whole
        if b"kill" in lines:  # it may have come together with the stop before it
            self.leave(self._kill())
        for line in lines:
            if line == b"stop":
                self._end_by = self._end_by or time.monotonic() + self.config.shutdown_timeout
            else:
                word, *given = line.decode().split()
                self._orders[word](*given)

    def _give_place_up(self) -> None:
        self._replaced = True

    def _tick(self) -> None:
        """Let each part act on its deadlines, and cut the overdue statements of its thread's sessions."""
        for part in self._parts:
            part.tick()
            cut_overdue(part.watched(), time.monotonic())
        self.desk[board.KILL_AFTER] = int(self.watchdog.kill_after * 1e9)
        self.desk[board.TICKED] = time.monotonic_ns()

    def _stop(self, code: int) -> int:
        """Take the process down in order; see the module's text."""
        self._title("stopping")
        for part in reversed(self._parts):
            self._await(part, part.stop())
        self._hand_back(self._inboxes.drained())
        self._await_jobs()
        if self._failed.is_set():
            return BROKEN
        if self._working():
            self.watchdog.cancel_all()
            self._end_by = time.monotonic() + CANCEL_GRACE
            self._await_jobs()
            self._hand_back(self.watchdog.held())
        for part in reversed(self._parts):
            self._await(part, part.finish(time.monotonic() + FLUSH_TIMEOUT))
        return BROKEN if any(part.owes for part in self._parts) else code

    def _kill(self) -> int:
        """Hand everything back and leave; the completer may finish its statement under way."""
        for part in reversed(self._parts):
            part.stop()
        self._hand_back(self._inboxes.drained() + self.watchdog.held())
        for part in reversed(self._parts):
            part.join(min(part.finish(time.monotonic()), KILL_WAIT))
        return BROKEN if self.watchdog.held() or self.outbox.jobs else 0

    def _await(self, part: Service, seconds: float) -> None:
        """Wait so long for the end of a part; tick and listen meanwhile."""
        deadline = time.monotonic() + seconds
        while not part.ended and time.monotonic() < deadline:
            part.join(LISTEN)
            self._listen(0)
            self._tick()

    def _await_jobs(self) -> None:
        """Wait until each job's outcome is in the outbox; until a stop, as long as their timeouts let them."""
        while self._working() and not self._failed.is_set() and (self._end_by is None or time.monotonic() < self._end_by):
            self._listen(TICK if self._end_by is None else LISTEN)
            self._tick()

    def _working(self) -> bool:
        """Tell whether a slot may still put a job into the outbox, or a singleton runs."""
        return any(part.working for part in self._parts)

    def _hand_back(self, jobs: list[Any]) -> None:
        hand_back(jobs, self.config, lambda: self._connect("process", 2))

    def _connect(self, role: str, session: int) -> Connection:
        connection = db.session(self.config, self.seat.url, role)
        if role != "process" and self.desk[board.SESSIONS[session]]:
            claim_again(connection, self.held, self.seat.number)
        self.desk[board.SESSIONS[session]] = connection.backend_pid
        return connection

    def _wake_producer(self, queue: int) -> None:
        self.producer.wake(queue)

    def _thread_broke(self, args: threading.ExceptHookArgs) -> None:
        """Tell of an exception in a thread of ours and end the process."""
        sys.excepthook(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
        if args.thread is not None and args.thread.name.startswith("fastq"):
            self.broke()

    def _show_title(self) -> None:
        busy = self.watchdog.executing()
        slots = sum(feed.concurrency for feed in self.feeds)
        self._title(f"{','.join(self.config.concurrency)} busy {busy}/{slots}")

    def _title(self, text: str) -> None:
        setproctitle(f"fastq: worker {self.seat.place + 1}/{self.config.process_count} {text}")
