"""What tests of terms share: a chore that says what is asked of it, a gate, and looks at the lease."""

import threading
import time

NAME = "leader:x"
LONG = 60.0  # s; longer than any test
FENCED = """with led as (
        select from fastq.lease
        where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
        for key share
    ), slept as (select pg_sleep($4::float8))
    select (select count(*) from led), (select count(*) from slept)"""
SESSIONS = "select pid from pg_stat_activity where application_name = 'fastq maintainer' and datname = current_database()"


class Sweep:
    """A chore that does nothing much, and says what is asked of it."""

    def __init__(self, name="sweep", *, every=LONG, start=None, run=None, end=None):
        self.name = name
        self.said = []
        self._every = every
        self._start, self._run, self._end = start, run, end

    def start(self, site):
        self.said.append("start")
        if self._start:
            self._start(site)

    def run(self, site):
        self.said.append("run")
        return (self._run(site) if self._run else None) or self._every

    def end(self, site, reason):
        self.said.append(reason)
        if self._end:
            self._end(site)


class Gate:
    """Where something waits until the test lets it pass."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self, _=None):
        self.reached.set()
        assert self.opened.wait(20)


def names(events, *wanted):
    return [event.name for event in events if event.name in wanted]


def expire(connection):
    connection.execute("update fastq.lease set expires_at = clock_timestamp() - interval '1 ms' where name = $1", NAME)


def holder(connection):
    return connection.execute("select holder from fastq.lease where name = $1", NAME)[0][0]


def alive(one):
    """Tell the threads of the terms of our lease that live."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"fastq {NAME}")]


def min_left(connection, seconds):
    """Watch the lease; return the fewest seconds that were left of it."""
    text = "select extract(epoch from expires_at - clock_timestamp())::float8 from fastq.lease where name = $1"
    give_up, least = time.monotonic() + seconds, LONG
    while time.monotonic() < give_up:
        least = min(least, connection.execute(text, NAME)[0][0])
        time.sleep(0.01)
    return least
