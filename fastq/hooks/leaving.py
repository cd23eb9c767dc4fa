"""Have hooks send the records that they keep in memory before a worker process ends: spans, measurements, reports.

`before_the_end` is called while the application is imported, by hooks that hand records to an exporter, which sends them some
seconds later from a thread of its own. `send_off` is called by the main thread of a worker process as its last step but for its
output, when all completions are written: no exit handlers of the application run there (work/seat.py).

Invariant: the end of a process waits LIMIT seconds at most, however long a function takes, since they all run in one thread that
ends with the process. Where no hook has asked, there is no thread. It deliberately does nothing for a process that has lost its
supervisor or has broken.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.texts import told

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 2.0
"""Seconds for all functions together: as long as Sentry's SDK by itself waits at the exit of a program."""

_functions: list[Callable[[float], object]] = []  # added to by the thread that imports the application, read at the end


def before_the_end(send: Callable[[float], object]) -> None:
    """Have the function called before a worker process ends, with the seconds that it may take; twice the same counts once."""
    if send not in _functions:
        _functions.append(send)


def send_off(limit: float = LIMIT) -> None:
    """Call the functions, and wait for them up to the limit."""
    if not _functions:
        return
    sending = threading.Thread(target=_send, args=(limit,), name="fastq leaving", daemon=True)
    try:
        sending.start()
    except RuntimeError as error:  # the system has no thread left for this process
        emit("hook.not_sent", level=logging.WARNING, error=told(error))
        return
    sending.join(limit)


def _send(limit: float) -> None:
    for send in _functions:
        try:
            send(limit)
        except Exception as error:  # noqa: BLE001 - a function of another library, which must not keep the others from theirs
            emit("hook.not_sent", level=logging.WARNING, error=told(error))
