"""Throw an exception into a thread while it runs code of the user's, and into nothing else.

Two threads take part. The *target* (an executor, the thread of a singleton) runs code of the user's on behalf of a subject (a
job, the term of a singleton): it shows the subject in an attribute of its own while that code runs, and `None` otherwise. The
*thrower* (the main thread of the worker process) makes an `Interrupt` for each target and calls `throw`. Python raises a thrown
exception in the target at one of its next bytecodes, or when the C call that the target is in returns; nobody can say exactly
when, and nobody can take the exception back.

Invariant: an exception that was thrown has been raised before the target begins anything else. It holds because each side
writes before it reads. The thrower shows the throw, then looks whether the target still runs the subject, and only then throws.
The target stops showing the subject, then looks for a throw. So at least one of them sees the other: the thrower withdraws, or
the target waits in `absorb`.

    AIMED      shown by the thrower, which has not thrown yet
    THROWN     Python has the exception; only the target takes the throw down from here on
    WITHDRAWN  the target had stopped running the subject, so nothing was thrown
    LANDED     the exception has been raised in the target, or nothing of it is left to come

The target calls `absorb` within a `try` that catches the exception, for it may be raised on the way into `absorb`; from the
`except` it calls `absorb` once more. This module deliberately knows neither jobs nor leases, and decides no deadline.
"""

from __future__ import annotations

import ctypes
import time
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK = 0.0005
"""Seconds between two looks of a target at a throw that is aimed at it: the thrower needs microseconds, once it has the
interpreter."""

JUMPS = 1000
"""Jumps backwards after which a thrown exception has been raised: Python looks for one at each; a thousand take some 10 us."""


class State(Enum):
    """How far a throw has come."""

    AIMED = "aimed"
    THROWN = "thrown"
    WITHDRAWN = "withdrawn"
    LANDED = "landed"


ARROWS = {(State.AIMED, State.THROWN), (State.AIMED, State.WITHDRAWN), (State.THROWN, State.LANDED)}
"""Every transition of a throw. The thrower makes the first two, the target the third."""

_throw_into = ctypes.pythonapi.PyThreadState_SetAsyncExc
_throw_into.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Throw:
    """One exception on its way into a thread, on account of one subject."""

    __slots__ = ("state", "subject")

    def __init__(self, subject: object) -> None:
        self.subject = subject
        self.state = State.AIMED

    def become(self, state: State) -> None:
        """Go on to a state; each has one thread that goes on from it."""
        assert (self.state, state) in ARROWS, f"a throw that is {self.state.value} cannot be {state.value}"
        self.state = state


class Interrupt:
    """The interruptions of one thread, all of them of class `kind`. `shown` returns the subject that the thread shows."""

    __slots__ = ("_kind", "_shown", "under_way")

    def __init__(self, kind: type[BaseException], shown: Callable[[], object]) -> None:
        self.under_way: Throw | None = None  # put up by the thrower; taken down by it when withdrawn, by the target when landed
        self._kind = kind
        self._shown = shown

    def throw(self, thread: int | None, subject: object, kind: type[BaseException]) -> None:
        """Set an exception off in the thread of this number if it still runs code for the subject; the thrower's."""
        if self.under_way is not None:
            return
        aimed = self.under_way = Throw(subject)
        if thread is not None and self._shown() is subject:
            _throw_into(ctypes.c_ulong(thread), kind)
            aimed.become(State.THROWN)
        else:
            aimed.become(State.WITHDRAWN)
            self.under_way = None

    def absorb(self, subject: object) -> None:
        """Stay until an exception that was aimed at the subject has been raised here, or was withdrawn; the target's."""
        aimed = self.under_way
        if aimed is None or aimed.subject is not subject:
            return
        try:
            while aimed.state is State.AIMED:
                time.sleep(LOOK)
            for _ in range(JUMPS):
                pass
        except self._kind:
            pass
        while aimed.state is State.AIMED:  # it was raised before the thrower came to say so
            time.sleep(LOOK)
        if aimed.state is State.THROWN:
            aimed.become(State.LANDED)
            self.under_way = None


def saying(kind: type[BaseException], text: str) -> type[BaseException]:
    """Return a class like this one whose exceptions have a text: Python calls the class that is thrown without arguments."""

    def init(self: BaseException, *_: object) -> None:
        BaseException.__init__(self, text)
        self.args = (text,)

    return type(kind.__name__, (kind,), {"__init__": init, "__module__": kind.__module__})
