"""The fork server of a host, set up for one app: the door to fork.

Used by the supervisor's main thread, which makes the `ForkServer` and writes its attributes; `interrupt` runs there too, in the
handler of its signals. A child that starts calls `_arrived` for each of its descriptors. Worker processes come from a fork server
(`multiprocess`): a clean interpreter without a thread or a connection that has imported the app and frozen its objects
(`gc.freeze`), so that children share its pages, and the supervisor may own threads and connections because it never forks itself.

Of multiprocess only the start of a process is used: never its queues, pipes or pickled messages. A child is sent one `Seat`, by
us, through our own fork server. A child's death is seen as the end of a pipe (its sentinel).

A start waits for the fork server, which may be importing the app for as long as it likes: `interrupt` ends that wait.
It is not begun without descriptors for all of it: half a request ends the fork server, and all children with it.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import multiprocess
from multiprocess import forkserver, reduction

from fastq.host.children import Child
from fastq.work.process import main
from fastq.work.seat import Seat

if TYPE_CHECKING:
    from fastq.board.board import Board
    from fastq.config import Config

OWN_DESCRIPTORS, DESCRIPTORS_OF_CHILD = 128, 4
"""Descriptors of a supervisor: some dozen connections, pipes and libraries' files; and for each child the ends of two pipes, its
sentinel and the pipe that tells it of our end. The usual limit of 1,024 is enough for 224 children."""

DESCRIPTORS_OF_START = 12
"""Descriptors that a start opens beside the child's pipes, for a moment: 5, and 5 more if the fork server has to be started."""


class Descriptor:
    """A file descriptor on its way to a child: handed over by the socket to the fork server, not by number."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as a duplicate."""
        return _arrived, (reduction.DupFd(self.fd),)


def _given(fd: int) -> int:
    """Put a descriptor where a child finds the number of its duplicate."""
    return cast("int", Descriptor(fd))


def _arrived(duplicate: Any) -> int:
    return int(duplicate.detach())


class ForkServer:
    """The fork server, set up for one app."""

    def __init__(self, config: Config, target: str, app_dir: Any, url: str, board: Board) -> None:
        self._config = config
        self._target = target
        self._app_dir = app_dir
        self._url = url
        self._board = board
        # `start` sets the first in the main thread and then reads the second; the handler of its signals sets the second and then
        # reads the first, and clears it. Each writes before it reads, so an interrupt is never missed.
        self._starting = False
        self._interrupted = False
        if not config.core_dumps:
            _leave_no_cores()
        _allow_descriptors(OWN_DESCRIPTORS + DESCRIPTORS_OF_CHILD * 2 * config.process_count)  # twice: others may recycle
        self._context = multiprocess.get_context("forkserver")  # pyright: ignore[reportAttributeAccessIssue] - made at its import
        self._context.set_forkserver_preload(["fastq.host.preload"])

    def start(self, number: int, place: int, desk: int) -> Child:
        """Fork a worker process and seat it; an OSError or EOFError says that the fork server could not."""
        control_read, control_write, wake_read, wake_write = _pipes()
        seat = Seat(
            number=number,
            place=place,
            desk=desk,
            config=self._config,
            target=self._target,
            app_dir=self._app_dir,
            url=self._url,
            board_fd=_given(self._board.fd),
            control_fd=_given(control_read),
            wake_read=_given(wake_read),
            wake_write=_given(wake_write),
        )
        process = self._context.Process(target=main, args=(seat,), name=f"fastq-{place}")
        try:
            self._starting = True
            if self._interrupted:
                raise InterruptedError("told to end before the fork server was asked")
            _make_sure_of_descriptors(control_read)
            process.start()
        except (OSError, EOFError):  # the fork server has just died, and the next start makes another; or `interrupt` was called
            for fd in (control_write, wake_write):
                os.close(fd)
            raise
        finally:
            self._starting = False
            os.close(control_read)
            os.close(wake_read)
        return Child(process, seat, control_write, wake_write)

    def interrupt(self) -> None:
        """Have `start` raise an InterruptedError instead of waiting, now and from now on. Called by the handler of a signal."""
        self._interrupted = True
        if self._starting:
            self._starting = False
            raise InterruptedError("told to end while the fork server was being waited for")

    @property
    def pid(self) -> int | None:
        """Return the pid of the fork server; None if there is none. It is ours until `ended` has reaped it."""
        pid: int | None = _server._forkserver_pid  # noqa: SLF001 - see _server
        return pid

    def dismiss(self) -> None:
        """Ask the fork server to end; the children must have ended."""
        alive_fd: int | None = _server._forkserver_alive_fd  # noqa: SLF001 - see _server
        if self.pid is not None and alive_fd is not None:
            os.close(alive_fd)

    def ended(self) -> bool:
        """Tell whether the fork server has ended, and reap it."""
        pid = self.pid
        if pid is not None and os.waitpid(pid, os.WNOHANG)[0]:
            _server._forkserver_pid = None  # noqa: SLF001 - see _server
        return self.pid is None


def _pipes() -> tuple[int, int, int, int]:
    """Make two pipes to which a write never blocks, or none."""
    first = os.pipe()
    try:
        second = os.pipe()
    except OSError:
        for fd in first:
            os.close(fd)
        raise
    for _, write in (first, second):
        os.set_blocking(write, False)
    return *first, *second


def _allow_descriptors(count: int) -> None:
    """Raise the soft limit of open descriptors, as far as the hard one lets it; children inherit that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        with suppress(ValueError, OSError):
            limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _leave_no_cores() -> None:
    """Have the kernel write no image of a process that crashes: args and the database's password are in it. Children inherit it.

    The soft limit alone: a program that a job starts may have its own again.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _make_sure_of_descriptors(fd: int) -> None:
    """Raise an OSError unless there are as many as a start takes."""
    duplicates: list[int] = []
    try:
        for _ in range(DESCRIPTORS_OF_START):
            duplicates.append(os.dup(fd))  # noqa: PERF401 - those that were made are closed, also if the next one fails
    finally:
        for duplicate in duplicates:
            os.close(duplicate)


_server = forkserver._forkserver  # noqa: SLF001 - for the reason given here
"""The state of multiprocess's fork server. It has no public way to its end, and the private one waits for it without a limit."""
