"""A part of a process that works in threads of its own: how the process starts it, looks after it, and takes it down.

A worker process, and the supervisor of a host, keep their parts in a list: a part comes later in it than the parts that it
hands jobs or children to. They start the list from the front and take it down from the back, in two steps:

    stop     begin nothing new. Jobs, or children, then end in their own time
    finish   end. The jobs, or the children, have ended, or their time is over

The main thread of the process makes a service, starts it once, and calls all its methods, which return soon. `working`, `ended`
and `watched` may be asked at any time; `stop` and `finish` may come at any time too, before the start and more than once. Threads
are daemons: one that does not end in its time, because the database is away, say, ends with the process.

A service that has finished is not started again. It deliberately says nothing of its work: the parts hand jobs to each other by
themselves.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.postgres.db import Connection


class Service:
    """One part. Each method does nothing here, so that a part has only the methods that it needs; its state is its own."""

    @property
    def working(self) -> bool:
        """Tell whether something goes on here that the process waits for between `stop` and `finish`."""
        return False

    @property
    def ended(self) -> bool:
        """Tell whether no thread of it runs: it was not started, or has ended."""
        return True

    @property
    def stuck(self) -> int:
        """Count the threads that nothing can end: the process is to be recycled."""
        return 0

    @property
    def owes(self) -> str:
        """Name the work that is lost if the process ends now without waiting for this part; '' if none is."""
        return ""

    def start(self) -> None:
        """Start the threads."""

    def tick(self) -> None:
        """Act on deadlines that have passed; the main thread calls this again and again, several times a second."""

    def stop(self) -> float:
        """Begin nothing new; return the seconds for which the parts before this one wait for its end before they stop, too."""
        return 0.0

    def finish(self, by: float) -> float:
        """End, and try nothing again after a monotonic time; return the seconds for which the process waits for the end."""
        del by
        return 0.0

    def join(self, seconds: float) -> None:
        """Wait for the end, so long at most."""
        if not self.ended:
            time.sleep(seconds)

    def watched(self) -> Iterable[Connection]:
        """Give the sessions, for their overdue statements to be cut."""
        return ()


class Threaded(Service):
    """A service that is one thread, which runs `_run`."""

    def __init__(self, name: str) -> None:
        self.thread = threading.Thread(target=self._run, name=f"fastq {name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    @property
    def ended(self) -> bool:
        """Tell whether the thread does not run."""
        return not self.thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end, so long at most."""
        if self.thread.ident is not None:
            self.thread.join(seconds)

    def _run(self) -> None:
        """Work until `finish`, or `stop`, has been called."""
        raise NotImplementedError
