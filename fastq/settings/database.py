"""Settings: where the tables are.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.settings.declaring import SCHEMA, SCHEMA_RULE, any_text, named, setting


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DatabaseSettings:
    """A group of the settings of `Config`."""

    database_url: str = setting(
        "", any_text(), "the Postgres to use; empty: an embedded one, for development", "nothing to guess"
    )
    data_dir: str = setting(
        ".fastq/postgres", any_text(), "the folder of the embedded Postgres", "beside the code it serves, and easy to remove"
    )
    schema: str = setting("fastq", named(SCHEMA, SCHEMA_RULE), "the schema of fastq's tables", "one word to find in psql")
