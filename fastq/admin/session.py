"""Open the connection that an operator's functions work on.

Runs in the caller's thread; the caller owns the connection, and closes it. It expects the schema that this program knows, and
says so if there is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.postgres import db
from fastq.schema.migrate import check

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection


def connect(config: Config, url: str) -> Connection:
    """Open a connection for these functions, and make sure that the schema has the version that they expect.

    Its plans are not pinned: the archive is read by block-range indexes, with plans that the hot statements must not take.
    """
    connection = db.operators_session(config, url, "admin")
    try:
        check(connection)
    except BaseException:
        connection.close()
        raise
    return connection
