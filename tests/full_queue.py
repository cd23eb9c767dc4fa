"""Somebody who fills the server's queue of notifications and keeps it full: a session that listens and forgets to commit."""

import psycopg
from psycopg import errors

from tests.helpers import execute, wait_for

NAME = "a forgotten listener"
PAYLOAD = 7_000  # bytes; the most is 8,000
MOST = 2_000  # of that size; the queue of a test's server holds some 60


class FullQueue:
    """Keep the queue full from now on. `pid` is that of the culprit's session."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._holder = psycopg.connect(url, autocommit=True, application_name=NAME)
        self._holder.execute("listen elsewhere")
        self._holder.execute("begin")
        self._holder.execute("select 1")
        self.pid = self._holder.info.backend_pid
        with psycopg.connect(url, autocommit=True) as filler:
            self._fill(filler)

    def _fill(self, filler: psycopg.Connection) -> None:
        try:
            for number in range(MOST):
                filler.execute("select pg_notify('elsewhere', %s)", (f"{number} ".ljust(PAYLOAD, "x"),))
        except errors.ProgramLimitExceeded:
            return
        raise AssertionError(f"{MOST} notifications of {PAYLOAD} bytes did not fill the queue")

    def empty(self) -> None:
        """End the culprit. What was kept for it is dropped when somebody asks how full the queue is."""
        self._holder.close()
        wait_for(lambda: not execute(self._url, "select pid from pg_stat_activity where pid = %s", self.pid), 30.0, "its end")
