"""Terms of a lease that is held by hand, and electors whose terms are of a test's chores."""

import pytest

from fastq.config import Config
from fastq.lead.term import term
from fastq.lead.term.term import Term
from fastq.leases import lease
from fastq.leases.elector import Candidacy, Elector, Trust
from fastq.leases.lease import Fence, boottime
from tests.db.term.sweeps import LONG, NAME
from tests.helpers import wait_for


@pytest.fixture
def config(database):
    """Give a configuration with a short lease."""
    return Config(database_url=database, lease_ttl=2.0)


@pytest.fixture
def make(config, connection):
    """Give a function that makes a term in which the lease is really held, of chores made by a function."""
    made = []

    def term_of(make_chores, *, trust=None, fence=None, url=config.database_url):
        if fence is None:
            taken = lease.acquire(connection, NAME, "me", LONG)
            fence = Fence(NAME, "me", taken.term)
        given_up = []
        one = Term(config, url, fence, trust or Trust(boottime() + LONG), make_chores, lambda given, _: given_up.append(given))
        one.given_up = given_up
        made.append(one)
        return one

    yield term_of
    for one in made:
        one.end("stop")
    for one in made:
        wait_for(lambda one=one: one.ended, 10, "the end of a term")


@pytest.fixture
def hasty(monkeypatch):
    """Make the pauses between attempts to start short."""
    monkeypatch.setattr(term, "BACKOFF", (0.05, 0.1))


@pytest.fixture
def stand(database):
    """Give a function that makes an elector whose terms are of chores made by a function; the terms are its list."""
    standing = []

    def start(make_chores, url=database, ttl=2.0):
        config = Config(database_url=url, lease_ttl=ttl)
        terms = []

        def begin(fence, trust):
            one = Term(config, url, fence, trust, make_chores, elector.resign)
            terms.append(one)
            one.start()

        def end(fence, reason):
            for one in terms:
                if one.fence == fence:
                    one.end(reason)

        elector = Elector(config, url, [Candidacy(NAME, begin, end)])
        elector.terms = terms
        standing.append(elector)
        elector.start()
        return elector

    yield start
    for elector in standing:
        elector.stop()
    for elector in standing:
        wait_for(lambda elector=elector: elector.ended and all(one.ended for one in elector.terms), 15, "the end")
