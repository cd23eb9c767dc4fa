"""Keep a process that a job forks from acting in our name: from hearing our signals, from going on with our jobs.

The main thread of a worker process calls `ignore_signals` when it sits down (seat.py) and `guard` before it starts the parts
(process.py). The hooks before and after a fork run in the thread that forks, `_forked` in the child, in its only thread. It sets
`forked`; executors, the event loop and the threads of singletons read that after code of the user's has run, and call `leave`.

A job may fork (`multiprocessing` does): the child has a copy of the inbox, of the loop, of the pipe that stops us, and the very
board. So its signals are Python's own again before it runs anything, and where its part of `work` ends it ends, too.

Invariant: nothing of ours runs in the child but this module. It deliberately does not close what the child inherits: a
descriptor that is only held does no harm, and the user's own must stay.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""A terminal sends these to the whole group; the supervisor decides."""

OURS = (signal.SIGTERM, *IGNORED)
"""Those that have handlers of ours."""

PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>

FAILED = 1
"""Exit code of a child that raised, as Python's own."""

forked = False  # written by the hook, in the child; there it stays true
_libc = ctypes.CDLL(None)
_held = threading.local()  # `mask`: the signals that a thread that forks had blocked before


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it has ended; called by all that fastq itself forks."""
    if sys.platform == "linux":
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ignore_signals() -> None:
    """Do nothing upon signals that are the supervisor's: by a handler, as programs that a job starts would inherit SIG_IGN."""
    for number in IGNORED:
        signal.signal(number, _ignore)
        signal.siginterrupt(number, False)  # C code of the user's has nothing to do with them


def guard(stop: Callable[[], object]) -> None:
    """Call `stop` upon SIGTERM, and watch forks from now on; called once, by the main thread of a worker process."""
    signal.signal(signal.SIGTERM, lambda *_: stop())
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_come, after_in_child=_forked)


def leave(error: BaseException | None) -> NoReturn:
    """End a child once its part of `work` has ended like this, with the exit code that Python would give it."""
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = (error.code or 0) & 0xFF
    elif error is not None:
        code = FAILED
        with suppress(BaseException):  # its text may raise
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(code)


def _hold_signals() -> None:
    """Hold signals until the child has handlers of its own: Python forgets those that come to a child before its hooks."""
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, OURS)


def _let_signals_come() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _forked() -> None:
    global forked  # noqa: PLW0603 - one per process, like the process itself
    forked = True
    for number in OURS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _let_signals_come()


def _ignore(*_: object) -> None:
    return
