"""Settings: how long the leader keeps rows, and when it builds an index anew.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.settings.declaring import flag, number, retention_rules, seconds, setting, whole


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class UpkeepSettings:
    """A group of the settings of `Config`."""

    archive: bool = setting(True, flag(), "keep a row of each completed job", "history is what people look for first")
    archive_days: int = setting(7, whole(1, 3_650), "days to keep finished jobs", "long enough to look into last weekend")
    keep: str = setting(
        "",
        retention_rules(),
        "days to keep finished jobs of a state, a queue, or queue:state, where they differ",
        "the same for all",
    )
    once_days: float = setting(
        30.0, number(0.01, 3_650), "days to remember what Singleton.once was asked", "longer than anything is tried again"
    )
    job_log_days: float = setting(
        3.0, number(0.01, 3_650), "days to keep what jobs have logged and printed", "it is large, and read while it is fresh"
    )
    stats_days: float = setting(
        400.0, number(1, 3_650), "days to keep the statistics of a day", "a year, and what to compare its beginning with"
    )
    audit_days: float = setting(
        90.0, number(0.01, 3_650), "days to keep the record of changes by operators", "a quarter: who looks, looks back for weeks"
    )
    reindex_interval: float = setting(
        86_400.0, seconds(0, 31_536_000), "seconds between looks whether an index is worth building anew; 0: never", "daily"
    )
    reindex_timeout: float = setting(
        600.0, seconds(1, 86_400), "seconds after which building an index is given up", "it waits for old transactions"
    )
