"""The settings of both clients: the configuration, and how a statement and a wake-up are made from it.

Made by a client, in the thread that makes the client; read by all its threads and event loops, never changed. It deliberately has
no connection.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, SupportsIndex

from fastq.args.hook import ENQUEUEING, check_hooks
from fastq.args.secret.ring import take
from fastq.config import Config, settled
from fastq.enqueue.calls import RECORD
from fastq.errors import ConfigError, OptionError
from fastq.postgres import refusals
from fastq.sql.statements import qualified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastq.args.hook import Hook

MAX_ID = 2**63 - 1
"""The largest number that a column of type bigint can hold."""


class Settings:
    """The configuration of a client, with its arguments over the environment's."""

    def __init__(self, url: str | None, schema: str | None, config: Config | None, hooks: Sequence[Hook] = ()) -> None:
        config = settled(config, database_url=url, schema=schema)
        if not config.database_url:
            raise ConfigError("a client needs a database: set FASTQ_DATABASE_URL, or write Client('postgresql://...')")
        self.config = config
        take(config.args_keys, config.args_unique_key)
        self.url = config.database_url
        self.schema = config.schema
        self.channel = config.channel
        self.max_bytes = config.max_args_bytes
        self.prepare = not config.poll_only
        self.seconds = config.statement_timeout
        self.hooks = check_hooks(hooks, called=ENQUEUEING)
        self.remedy = refusals.Remedy(config.schema)

    def text(self, name: str) -> str:
        """Return a statement of fastq/sql for our schema, to be run in a session with a search path that is not ours."""
        return qualified(name, self.schema)

    def text_for_one(self, name: str) -> str:
        """Return a statement over ids for a single one: asyncpg asks the server about arrays, in a statement of its own."""
        return self.text(name).replace("$1::bigint[]", "array[$1::bigint]")

    def number(self, job_id: SupportsIndex) -> int | None:
        """Return an id as the database wants it; None if no job can have it, OptionError if it is no id at all."""
        if not hasattr(job_id, "__index__"):
            raise OptionError(f"job_id {job_id!r}: expected an integer, as enqueue returns it")
        number = int(operator.index(job_id))
        return number if 0 < number <= MAX_ID else None

    def waking(self, names: Iterable[str]) -> tuple[str, tuple[str, str]]:
        """Return the statement that wakes queues, and its parameters."""
        return self.text("wake"), (self.channel, RECORD.join(names))
