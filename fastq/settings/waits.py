"""Settings: how long to wait for the next job, for a hint, for the end of running jobs.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.settings.declaring import flag, seconds, setting


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WaitSettings:
    """A group of the settings of `Config`."""

    poll_interval: float = setting(
        1.0, seconds(0.01, 60), "seconds between looks at an idle queue", "bounds what a lost wake-up or a late commit can cost"
    )
    poll_only: bool = setting(
        False, flag(), "do not LISTEN and do not prepare: for a pooler in transaction mode", "sessions are shared there"
    )
    shutdown_timeout: float = setting(
        25.0, seconds(0, 3_600), "seconds that running jobs get to end at a stop", "Kubernetes kills after 30"
    )
    timeout_grace: float = setting(
        5.0,
        seconds(0.1, 3_600),
        "seconds from a job's timeout until its thread is given up",
        "a C call must return before Python can raise",
    )
