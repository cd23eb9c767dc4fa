"""Find the database that a command shall use: the configured one, or an embedded one in the data folder.

The embedded server is shared: a command that finds it running joins, and the last to leave stops it. It is always migrated,
because nobody else would do it; a database of the user's own is migrated only by `fastq migrate` and `fastq dev`. Runs in the
main thread of the command, which owns the connection and the share in the server until its `with` block ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastq import admin
from fastq.cli.terminal.output import note
from fastq.environment import publish
from fastq.errors import ConfigError
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.config import Config
    from fastq.postgres.db import Connection


@dataclass(frozen=True)
class Database:
    """The database of a command; `embedded` is the server's folder, None for one of the user's own."""

    url: str = field(repr=False)
    embedded: Path | None = None

    def describe(self, connection: Connection) -> str:
        """Say which database it is, without a password."""
        info = connection.raw.info
        server = f"Postgres {info.server_version // 10_000}.{info.server_version % 10_000}"
        if self.embedded is not None:
            return f"{server}, embedded in {_short(self.embedded)}: for development only"
        place = info.host if info.host.startswith("/") else f"{info.host}:{info.port}"
        return f"{server}, database {info.dbname} at {place} as {info.user}"

    @property
    def psql(self) -> str | None:
        """Say how to look into an embedded database."""
        return f"psql '{self.url}'" if self.embedded is not None else None


@contextmanager
def found(config: Config, *, create: bool = False) -> Iterator[Database]:
    """Give the database, running; `create` allows to make an embedded one where there is none yet."""
    if config.database_url:
        yield Database(config.database_url)
        return
    folder = Path(config.data_dir)
    if not create and not (folder / "data").exists():
        raise ConfigError(
            f"no database is configured, and there is no embedded one in {folder}: set FASTQ_DATABASE_URL or give --database "
            "postgresql://...; for an embedded one run fastq dev or fastq migrate, or go to the folder where you did"
        )
    from fastq.postgres import embedded  # noqa: PLC0415 - only where it is used

    if create and not (folder / "data").exists():
        note(f"no database is configured (FASTQ_DATABASE_URL): making an embedded Postgres in {folder}, for development")
    with embedded.start(folder) as server:
        yield Database(server.url, server.folder)


def tell_app(config: Config) -> None:
    """Let an app that makes a client while it is imported find the database; an embedded one that is not up, by its future URL.

    So a mistake in the app or in the command's arguments shows before any database is made or joined.
    """
    from fastq.postgres import embedded  # noqa: PLC0415 - only where it is used

    publish(replace(config, database_url=config.database_url or embedded.expected_url(Path(config.data_dir))))


@contextmanager
def opened(config: Config) -> Iterator[Connection]:
    """Give a connection for the operator's functions, on a migrated schema."""
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        connection = admin.connect(config, database.url)
        try:
            yield connection
        finally:
            connection.close()


def _short(folder: Path) -> str:
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)
