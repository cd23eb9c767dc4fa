"""A leader's place to work, made by hand: a lease that holds, a fence, and a `Site` for chores."""

from dataclasses import replace

from fastq.config import Config
from fastq.lead.term.chore import Site
from fastq.leases.lease import Fence, acquire
from tests.db.jobs import session

LEASE = "leader:default"
TTL = 600.0  # s; nothing here takes as long


def lead(connection, name=LEASE, holder="me", ttl=TTL):
    """Take a lease and return its fence."""
    term = acquire(connection, name, holder, ttl).term
    assert term is not None
    return Fence(name, holder, term)


def take_over(connection, fence, holder="another"):
    """Make somebody else the holder, in one statement, as when the lease had run out; return his fence."""
    connection.execute(
        "update fastq.lease set holder = $2, term = term + 1, expires_at = clock_timestamp() + make_interval(secs => $3) "
        "where name = $1",
        fence.name,
        holder,
        TTL,
    )
    return Fence(fence.name, holder, fence.term + 1)


def configured(**settings):
    """Return a configuration without anybody's environment."""
    return replace(Config.load(environ={}), **settings)


def site_on(url, *, name=LEASE, queues=None, connection=None, nap=lambda _: False, **settings):
    """Make a site that leads; its connection is the test's to close, or the one given."""
    config = configured(**settings)
    with_fence = connection or chore_session(url, config)
    site = Site(with_fence, lead(with_fence, name), config, url, nap)
    site.queues = queues
    return site


def chore_session(url, config, **settings):
    """Open a session as a term does."""
    return session(url, settings={"statement_timeout": str(int(config.statement_timeout * 1000)), **settings})


def run_until(chore, site, condition, limit=1_000):
    """Run a chore until the condition holds for the pause that it returned; return the pauses."""
    pauses = []
    while not pauses or not condition(pauses[-1]):
        pauses.append(chore.run(site))
        assert len(pauses) < limit, f"{chore.name} did not come to an end: {pauses[-5:]}"
    return pauses


def run_out(chore, site, limit=1_000):
    """Run a chore until it has nothing to do for a while; return how many rows it changed."""
    before = site.changed
    run_until(chore, site, lambda pause: pause > 0.2, limit)
    return site.changed - before
