"""Where the examples find their database: FASTQ_DATABASE_URL, or else the embedded Postgres that `fastq dev` makes."""

from pathlib import Path

from fastq import Config
from fastq.postgres import embedded


def url() -> str:
    """Return the URL; an embedded server that runs already is shared, and stops with whoever leaves it last."""
    config = Config.load()
    return config.database_url or embedded.start(Path(config.data_dir)).url
