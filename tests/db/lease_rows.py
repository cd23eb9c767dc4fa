"""Leases as rows: tried for by hand, moved in time, and looked at."""

from fastq.leases import lease
from fastq.leases.lease import Fence

NAME = "leader:x"
TTL = 10.0  # s; nothing here takes as long


def take(connection, holder="a", ttl=TTL, name=NAME, **options):
    """Try once; return the fence, or None."""
    term = lease.acquire(connection, name, holder, ttl, **options).term
    return None if term is None else Fence(name, holder, term)


def renew(connection, fence, ttl=TTL):
    """Renew one lease; tell whether it is still held."""
    return fence.name in lease.renew(connection, [fence], ttl, 5.0)


def release(connection, fence):
    return lease.release(connection, fence)


def expire(connection, by="1 ms"):
    connection.execute(f"update fastq.lease set expires_at = clock_timestamp() - interval '{by}'")


def shift(connection, by):
    """Do what a jump of the server's clock does: the times that were written are elsewhere."""
    connection.execute(f"update fastq.lease set expires_at = expires_at + interval '{by}'")


def row(connection, name=NAME):
    """Return holder, term and seconds left."""
    left = "case when isfinite(expires_at) then extract(epoch from expires_at - clock_timestamp())::float8 end"
    text = f"select holder, term, {left} from fastq.lease where name = $1"
    return connection.execute(text, name)[0]
