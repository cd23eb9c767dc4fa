"""Recognise a pooler that shares sessions, PgBouncer for one, where the configuration does not know of it.

Called once by `fastq run`, before it says that it works: each session of the runtime would fail later, or fail now and then,
with an error of Postgres' that names no setting of ours. `fastq doctor` asks the same of sessions of its own (admin/doctor).

It opens two sessions as the runtime does. A pooler refuses their settings, or drops them, or hands both the same session of the
server in turns. It deliberately prepares nothing and sets nothing to find out: that would stay in sessions of others. Runs in
the main thread of the command, closes its sessions, and keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.errors import ConfigError, DatabaseUnavailable
from fastq.postgres import db
from fastq.postgres.urls import POOLER_ADVICE
from fastq.sql import pins

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

PROBED = ("search_path", "plan_cache_mode")
"""Pinned settings that show whether our options have arrived: a role has hardly both of these values by itself."""

LOOKS = 4
"""Times that each session is asked which one of the server's it is: an idle pool gives itself away at the second look."""


def check(config: Config, url: str) -> None:
    """Refuse a pooler that shares sessions, unless the configuration knows of it."""
    if config.poll_only:
        return
    opened: list[Connection] = []
    try:
        for _ in range(2):
            opened.append(db.session(config, url, "start"))  # noqa: PERF401 - an opened one is closed even if the next one fails
        first, second = opened
        if why := unpinned(first) or shared(first, second):
            raise _refusal(why)
    except DatabaseUnavailable as error:
        if db.REFUSED_OPTIONS in str(error):
            raise _refusal(f"it answers '{error}'") from error
        raise
    finally:
        for connection in opened:
            connection.close()


def unpinned(connection: Connection) -> str | None:
    """Say which setting of a session is not as the session began; None if our options have arrived."""
    for name in PROBED:
        [(value,)] = connection.execute("select pg_catalog.current_setting($1)", name)
        if value != pins.PINNED_SETTINGS[name]:
            return f"{name} is '{value}', though the session began with '{pins.PINNED_SETTINGS[name]}'"
    return None


def shared(first: Connection, second: Connection) -> str | None:
    """Say how two sessions that are at rest show that they are not the server's own; None if each is one."""
    looks = {
        tuple(connection.execute("select pg_catalog.pg_backend_pid()")[0][0] for connection in (first, second))
        for _ in range(LOOKS)
    }
    (one, other), *more = looks
    return "sessions of ours are served by the server's in turns" if more or one == other else None


def _refusal(why: str) -> ConfigError:
    return ConfigError(f"a pooler that shares sessions is between fastq and Postgres ({why}): {POOLER_ADVICE}")
