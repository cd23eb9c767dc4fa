"""Open a session within a known time, even if the look-up of a name blocks or the server is frozen.

Called by threads that must act before a deadline: an elector's thread or the owner of a `Lease`, because the trust in a lease
runs out, and the registrar, because the rows of its processes do. Each call has a thread of its own, which may outlive it; a
session that comes in time is the caller's.

Invariant: a session that comes too late is closed by that thread, or handed to the function that the caller named.
It deliberately does not know how sessions are opened; that is db.py's.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from fastq.errors import DatabaseUnavailable
from fastq.postgres import db

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.config import Config
    from fastq.postgres.db import Connection


def session_within(
    seconds: float,
    config: Config,
    url: str,
    role: str,
    *,
    timeout: float | None = None,
    late: Callable[[Connection], None] = lambda made: made.close(),
) -> Connection:
    """Open a session of the runtime in a thread, or give it up after so many seconds.

    `timeout` is the time limit of its statements; `late` is called with a session that comes too late.
    """
    future: Future[Connection] = Future()

    def work() -> None:
        try:
            made = db.session(config, url, role, timeout=timeout)
        except BaseException as error:  # noqa: BLE001 - the caller, who waits for the connection, must hear of any
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(made)
        else:
            late(made)  # nobody waits for it any more

    threading.Thread(target=work, name="fastq connecting", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if not future.cancel():
            return future.result()  # it came at the last moment
        raise DatabaseUnavailable(f"no connection within {seconds:.1f} s") from None


class Opener:
    """Open one session after the other for a thread, its owner; one that came too late for its try serves the next.

    Where the URL names several hosts and the first is gone, none may ever come in time.
    """

    def __init__(self, config: Config, url: str, role: str, timeout: float | None = None) -> None:
        self._config = config
        self._url = url
        self._role = role
        self._timeout = timeout  # of its statements; None: FASTQ_STATEMENT_TIMEOUT
        self._wanted = False  # the last try has failed; under the lock, like the next
        self._late: Connection | None = None  # put here by the thread that opened it, taken by the owner
        self._lock = threading.Lock()

    def open(self, seconds: float) -> Connection:
        """Return a session within so many seconds, or raise DatabaseUnavailable."""
        made = self._take(wanted=True)
        if made is None:
            made = session_within(seconds, self._config, self._url, self._role, timeout=self._timeout, late=self._keep)
        surplus = self._take(wanted=False)
        if surplus is not None:
            surplus.close()
        return made

    def _take(self, *, wanted: bool) -> Connection | None:
        with self._lock:
            self._wanted = wanted
            late, self._late = self._late, None
        return late

    def _keep(self, made: Connection) -> None:
        """Keep a session that came too late, if it is of use. Called by the thread that has made it."""
        with self._lock:
            keep = self._wanted and self._late is None
            if keep:
                self._late = made
        if not keep:
            made.close()
