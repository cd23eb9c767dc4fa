"""Give the jobs of a worker process their ways to its database: the jobs before them, transactions, records of steps.

Called by the main thread, before any job is executed. Nothing is connected until a job asks. It deliberately gives jobs no
connection that fastq itself works with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.enqueue.client import Client
from fastq.enqueue.settings import Settings
from fastq.jobs import deps
from fastq.results import transacting
from fastq.steps import through
from fastq.work.effects.transaction import Transactions
from fastq.work.steps.reaching import Reaching

if TYPE_CHECKING:
    from fastq.config import Config


def give_jobs_the_database(url: str, config: Config) -> None:
    """Let jobs reach the database of this process."""
    deps.use(Client(url, config=config).deps)
    settings = Settings(url, None, config)
    transacting.begin_by(Transactions(settings))
    through.use(Reaching(settings))
