"""Settings: how many jobs run at the same time, and how many are claimed and held ready.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.settings.declaring import MAX_CONCURRENCY, queue_list, seconds, setting, whole, word


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WorkSettings:
    """A group of the settings of `Config`."""

    procs: int = setting(0, whole(0, 256), "worker processes; 0: one per core", "one interpreter keeps one core busy")
    queues: dict[str, int] = setting(  # noqa: RUF009 - a field() with a default_factory
        {"default": 0}, queue_list(), "queues to work, with their concurrency per process", "the queue that enqueue uses"
    )
    threads: int = setting(
        16, whole(1, MAX_CONCURRENCY), "concurrency of a queue that names none", "jobs mostly wait: for a database, for an API"
    )
    max_args_bytes: int = setting(
        262_144, whole(64, 16_777_216), "the largest args that enqueue accepts", "a claim brings thousands of jobs at once"
    )
    batch: int = setting(
        5_000,
        whole(1, 20_000),
        "the most jobs in one claim or completion",
        "2,000 was slower in most runs of fastq bench, 8,000 no faster; on a noisy machine",
    )
    prefetch: float = setting(
        0.05, seconds(0, 10), "jobs to hold ready, as seconds of the present pace", "ten round trips to a database nearby"
    )
    prefetch_bytes: int = setting(
        33_554_432,
        whole(65_536, 1_073_741_824),
        "the most bytes of args, as JSON, that a process holds, from their claim until their outcome is written",
        "small beside what a process takes anyway; 128 jobs of the largest args that enqueue accepts",
    )
    job_log_level: str = setting(
        "info",
        word("debug", "info", "warning", "error", "off"),
        "the least level of records that are kept of jobs whose logs are kept; off: keeps no logs, nor what jobs print",
        "what a person wants to read of a job; debug means each library's",
    )
