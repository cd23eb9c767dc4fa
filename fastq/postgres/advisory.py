"""Make the keys of advisory locks: a lock lets one session at a time do something in a schema.

Pure; called by the thread that takes the lock. Postgres knows such a lock by a number alone, and all programs of a database share
these numbers. It deliberately takes no lock: the statement that does is its caller's.
"""

from __future__ import annotations

import hashlib


def lock_key(purpose: str, schema: str) -> int:
    """Return the key of an advisory lock: it lets one session at a time do something (the purpose) in a schema."""
    return int.from_bytes(hashlib.blake2b(f"fastq {purpose} {schema}".encode(), digest_size=8).digest(), signed=True)
