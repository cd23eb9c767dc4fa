"""Settings: each process: its statements, its crashes, its codec and its log.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.settings.declaring import address, flag, seconds, setting, whole, word


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RunningSettings:
    """A group of the settings of `Config`."""

    statement_timeout: float = setting(
        10.0,
        seconds(0.1, 600),
        "seconds until a statement of ours is cut off",
        "River's figure; a frozen peer is not seen otherwise",
    )
    max_crashes: int = setting(
        3, whole(1, 100), "process deaths while executing, after which a job is discarded", "twice may be bad luck"
    )
    codec: str = setting(
        "auto", word("auto", "c", "python"), "which twin decodes and encodes", "auto: the C core where it was built"
    )
    core_dumps: bool = setting(
        False, flag(), "let a process that crashes leave an image of its memory", "args and passwords are in it"
    )
    health: str = setting(
        "",
        address(),
        "where the supervisor answers probes and a scraper over HTTP",
        "a port is a decision: who may reach it, and which supervisor of a host has it",
    )
    stats: bool = setting(
        True, flag(), "count what jobs do, and time some of them", "it costs less than 1 % of a job that does nothing"
    )
    log_level: str = setting("info", word("debug", "info", "warning", "error"), "what is logged", "")
    log_json: bool = setting(False, flag(), "log one JSON object a line", "for machines")
