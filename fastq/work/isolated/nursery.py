"""The nursery of a worker process: a helper with one thread and no connection that forks a process for each isolated job.

    worker process ─ nursery ─ a process for each isolated job that runs now

The main thread of a worker process opens the nursery before it starts any other thread, so it is safe to fork there, and holds
its end: the `Nursery`. In the nursery itself `_serve` runs, for ever. It takes orders from the slots of the mode (apart.py), one
socket each, forks, passes signals on, and tells of each death on the socket of the slot. It runs no code of the user's, so it
answers within about a millisecond.

The kernel kills the nursery when its worker process is gone, and the jobs' processes when the nursery is. In order, the nursery
ends when the socket of its worker process closes, and kills the processes that still run. A process of a job leads a group of its
own, and the rest of that group dies with it: the nursery kills it before the number can be anybody else's.

Invariant: a signal reaches the process that it was meant for. A process stays a zombie until the nursery, which alone sends
signals and alone waits for deaths, has taken note of its end. It deliberately keeps no process in reserve: a fork takes a
millisecond (docs/adr/0031).
"""

from __future__ import annotations

import array
import errno
import gc
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from setproctitle import setproctitle, setthreadtitle

from fastq.work.isolated.wire import DEATH, FORK, KILL, LOOK, ORDER, Death
from fastq.work.shared.forks import die_with_parent

KILOBYTE = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`."""

WITH_A_JOB = 2
"""Descriptors that come with the order to fork: the job's end of its socket, and the file for its trace."""

Run = Callable[[socket.socket, int], object]
"""A function that executes one job in a process of its own."""


class Nursery:
    """A nursery as its worker process has it. The main thread makes it; slots have lines of their own to it."""

    def __init__(self, run: Run) -> None:
        """Fork it; it has `run` called in the process of each job, with its socket and its file for a trace."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # a line that is begun here is not to be written twice
        self._line, theirs = socket.socketpair()
        self.gone = False  # it has died; written by any thread that finds it so
        self.closed = False  # it was told to end, and kill the processes that still run; the main thread's
        self._reaped = False  # the same
        setthreadtitle("fastq-worker")  # without a blank, as in host/preload.py: Python counts threads before a fork
        worker = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._line.close()
            _be_nursery(theirs, worker, run)
        theirs.close()

    def line(self) -> socket.socket:
        """Return a slot's end of a new line."""
        ours, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # it may be gone already; the first job tells
            send_with(self._line, b"l", theirs.fileno())
        return ours

    def lose(self) -> None:
        """Take note that it has died."""
        self.gone = True

    def close(self) -> None:
        """Have it kill the processes that still run, and end."""
        if not self.closed:
            self.closed = True
            with suppress(OSError):  # it has died; and a program that a job has forked may have a copy of this end
                self._line.shutdown(socket.SHUT_RDWR)
            self._line.close()

    def ended(self) -> bool:
        """Tell whether it has ended, and reap it; the main thread's."""
        if not self._reaped:
            try:
                self._reaped = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:  # a job waits for all children that there are
                self._reaped = True
        return self._reaped


def send_with(line: socket.socket, data: bytes, *descriptors: int) -> None:
    """Send bytes together with descriptors."""
    line.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


def _take_with(line: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive bytes, and the descriptors that came with them."""
    taken = array.array("i")
    data, beside, _, _ = line.recvmsg(size, socket.CMSG_SPACE(WITH_A_JOB * taken.itemsize))
    for level, kind, content in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            taken.frombytes(content[: len(content) - len(content) % taken.itemsize])
    return data, taken.tolist()


def _be_nursery(control: socket.socket, worker: int, run: Run) -> NoReturn:
    try:
        die_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service manager sends it to all: the worker process decides
        setproctitle("fastq: nursery")
        setthreadtitle("fastq-nursery")
        gc.collect()
        gc.freeze()
        if os.getppid() == worker:  # else it died before we could ask to die with it
            _Children(control, run).serve()
    except BaseException as error:  # noqa: BLE001 - nothing may get out of here into the code of the worker process
        sys.excepthook(type(error), error, error.__traceback__)
    os._exit(1)


@dataclass
class _Child:
    """A process, and the attempt that it executes."""

    pid: int
    number: int
    line: socket.socket


class _Children:
    """The processes of jobs, and the lines to their slots. Lives in the nursery, in its only thread."""

    def __init__(self, control: socket.socket, run: Run) -> None:
        self._control = control
        self._run = run
        self._by_line: dict[socket.socket, _Child] = {}
        self._by_pid: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._deaths, wakes = socket.socketpair()
        self._wakes = wakes
        for end in (self._deaths, wakes):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        self._listen(control, self._take_line)
        self._listen(self._deaths, self._take_deaths)

    def _listen(self, end: socket.socket, act: Callable[[socket.socket], None]) -> None:
        self._selector.register(end, selectors.EVENT_READ, act)

    def serve(self) -> NoReturn:
        """Obey, for ever."""
        while True:
            for key, _ in self._selector.select():
                key.data(key.fileobj)

    def _take_line(self, control: socket.socket) -> None:
        data, descriptors = _take_with(control, 1)
        if not data:
            self._end()
        for descriptor in descriptors:
            self._listen(socket.socket(fileno=descriptor), self._obey)

    def _end(self) -> NoReturn:
        """Kill the processes that still run, and end: the worker process does, or is gone."""
        for pid in self._by_pid:
            _kill_group(pid)
        os._exit(0)

    def _obey(self, line: socket.socket) -> None:
        data, descriptors = _take_with(line, ORDER.size)
        if not data:
            self._selector.unregister(line)
            line.close()
            return
        what, number = ORDER.unpack(data)
        if what == FORK:
            if len(descriptors) == WITH_A_JOB:
                self._fork(line, number, *descriptors)
            else:  # the system had none left for us
                self._tell(line, Death(number, 0, errno.EMFILE, 0))
                for descriptor in descriptors:
                    os.close(descriptor)
            return
        child = self._by_line.get(line)
        if child is None or child.number != number:
            return
        if what == KILL:
            _kill_group(child.pid)
        else:
            os.kill(child.pid, signal.SIGQUIT if what == LOOK else signal.SIGTERM)

    def _fork(self, line: socket.socket, number: int, job: int, trace: int) -> None:
        nursery = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(line, Death(number, 0, error.errno or -1, 0))
        else:
            if pid == 0:
                self._be_child(nursery, job, trace)
            with suppress(OSError):  # it has done so itself, or is dead
                os.setpgid(pid, pid)
            self._by_line[line] = self._by_pid[pid] = _Child(pid, number, line)
        finally:
            os.close(job)
            os.close(trace)

    def _be_child(self, nursery: int, job: int, trace: int) -> NoReturn:
        """Keep nothing of the nursery's, and execute one job."""
        try:
            die_with_parent()
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for key in list(self._selector.get_map().values()):
                os.close(key.fd)
            self._wakes.close()
            self._selector.close()
            if os.getppid() == nursery:
                self._run(socket.socket(fileno=job), trace)
        except BaseException as error:  # noqa: BLE001 - as in _be_nursery
            sys.excepthook(type(error), error, error.__traceback__)
        os._exit(1)

    def _take_deaths(self, deaths: socket.socket) -> None:
        with suppress(BlockingIOError):
            deaths.recv(4096)
        while self._by_pid:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if dead is None:
                return
            _kill_group(dead.si_pid)  # programs that the job has left behind; the zombie keeps the number
            _, status, usage = os.wait4(dead.si_pid, 0)
            child = self._by_pid.pop(dead.si_pid)
            if self._by_line.get(child.line) is child:
                del self._by_line[child.line]
            self._tell(child.line, Death(child.number, status, 0, usage.ru_maxrss * KILOBYTE))

    def _tell(self, line: socket.socket, death: Death) -> None:
        with suppress(OSError):  # the slot is gone: it has one record under way at most, so there is always room
            line.send(DEATH.pack(*death))


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it may not have come to be the leader of its group
        os.kill(pid, signal.SIGKILL)
