"""Write down where code is: the stack of a thread, or of a task of an event loop that waits, as lines of a traceback.

Called by the thread of stacks.py, in a worker process, about threads and tasks that go on meanwhile; it keeps nothing. Only the
interpreter lock keeps a stack together: between two instructions of ours its owner may run, so the innermost lines may be of two
moments that are a few instructions apart.

Invariants: no value of a variable, an argument or an attribute is written, only files, lines, names of functions and the source
text of these lines. A text is LONGEST characters at most, of FIRST and LAST calls. It deliberately runs no code of the user's.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from operator import attrgetter
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

from fastq.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    Call = tuple[FrameType, int]
    """A frame and the line at which it is."""

FIRST, LAST = 20, 80
"""Calls of a stack that are written, the outermost and the innermost: a recursion without an end is a thousand deep. A guess."""

LONGEST = 16_384
"""Characters of one stack, the last ones: as much as is kept of a traceback (texts.py)."""

AROUND = ("threading.", "asyncio.", "fastq.", "concurrent.futures.")
"""How the names of the modules begin that a stack starts with before it comes to `work`; these calls are left out."""

TASKS = 10
"""Tasks that wait for each other of which the stacks are written: more than a person reads."""

PARTS: Mapping[type, Callable[[Any], tuple[FrameType | None, Any]]] = {
    CoroutineType: attrgetter("cr_frame", "cr_await"),
    GeneratorType: attrgetter("gi_frame", "gi_yieldfrom"),
    AsyncGeneratorType: attrgetter("ag_frame", "ag_await"),
}
"""Where the frame of a coroutine is, and what it waits for, by its type."""

CHAIN = 200
"""Coroutines that are followed, each awaited by the one before: a guess; a cycle of them has no end."""


def of_threads() -> Mapping[int, FrameType]:
    """Return the innermost frame of each thread of this process."""
    return sys._current_frames()  # noqa: SLF001 - documented, for this purpose


def of_thread(frame: FrameType | None) -> str:
    """Write the stack of a thread, given its innermost frame; '' if it has none."""
    return written([*_outwards(frame)][::-1])


def of_task(task: asyncio.Task[Any] | None, thread: FrameType | None) -> str:
    """Write the stack of a task, and those of the tasks that it waits for; `thread` is the frame of its event loop.

    A task that runs at this moment is where its event loop is.
    """
    texts: list[str] = []
    one = task
    while one is not None and len(texts) < TASKS:
        calls = [*_awaited(one.get_coro())]
        running = bool(calls) and any(frame is calls[0][0] for frame, _ in _outwards(thread))
        text = of_thread(thread) if running else written(calls)
        texts.append(text if not texts else f"which waits for the task {clean(one.get_name())!r}:\n{text}")
        one = None if running else _waited_for(one)
    return "".join(texts)


def written(calls: Sequence[Call]) -> str:
    """Write calls, the outermost first, without those before the user's code; all of them if there is none of the user's."""
    begin = next((place for place, (frame, _) in enumerate(calls) if not _is_around(frame)), 0)
    calls = calls[begin:]
    left_out = len(calls) - FIRST - LAST
    parts = [calls] if left_out <= 0 else [calls[:FIRST], calls[-LAST:]]
    texts = ["".join(traceback.StackSummary.extract(iter(part)).format()) for part in parts]
    text = clean(f"  ... {left_out:,} calls left out ...\n".join(texts))
    if len(text) > LONGEST:
        text = f"  ... {len(text) - LONGEST:,} characters left out ...\n{text[-LONGEST:].partition(chr(10))[2]}"
    return text


def _outwards(frame: FrameType | None) -> Iterator[Call]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame, frame.f_lineno or 0
        frame = frame.f_back


def _awaited(coroutine: Any) -> Iterator[Call]:
    """Yield the frames of a coroutine and of those that it awaits, one by the other; an object of the user's ends them."""
    for _ in range(CHAIN):
        parts = PARTS.get(type(coroutine))
        if parts is None:
            return
        frame, coroutine = parts(coroutine)
        if frame is not None:
            yield frame, frame.f_lineno or 0


def _waited_for(task: asyncio.Task[Any]) -> asyncio.Task[Any] | None:
    """Return the task that a task waits for, if that is what it waits for: itself, or the first of a gathering that runs."""
    waited = getattr(task, "_fut_waiter", None)
    if not isinstance(waited, asyncio.Future):
        return None
    among = getattr(waited, "_children", None) or [waited]
    return next((one for one in among if isinstance(one, asyncio.Task) and not one.done()), None)


def _is_around(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return "<frozen " in frame.f_code.co_filename or (type(name) is str and f"{name}.".startswith(AROUND))
