"""One frozen `Config`: every setting as a flag, a FASTQ_* variable and a default with its reason.

Read once at the start by the CLI or a Client; processes inherit the same object. environment.py writes settings to the
environment, for other programs and clients to read here.
Precedence: an argument or flag that was given, then the environment, then the default; None means "not given".

A setting is declared once, below: its name gives the variable (`shutdown_timeout` -> FASTQ_SHUTDOWN_TIMEOUT) and the flag
(--shutdown-timeout); `help` and `why` feed the CLI's help and the reference in docs/. A bad value from any of the three is a
ConfigError with the name as it was spelt there, the value and the rule. It deliberately does not read files.

Invariant: of a Config that exists, every value is allowed. Others put its schema into statements without asking again.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from fastq.args.options import QUEUE, QUEUE_RULE
from fastq.errors import ConfigError
from fastq.jobs.retention import FORMAT, Retention
from fastq.masked import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
"""Postgres cuts names at 63 bytes; the longest that we append (an archive partition's) needs 15 of them."""

SCHEMA_RULE = "1 to 48 of a-z, 0-9 and '_', not starting with a digit"


def _seconds(low: float, high: float = 86_400.0) -> tuple[Callable[[str], float], str]:
    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse, f"seconds, {low:g} to {high:g}"


def _number(low: float, high: float) -> tuple[Callable[[str], float], str]:
    return _seconds(low, high)[0], f"a number, {low:g} to {high:g}"


def _whole(low: int, high: int) -> tuple[Callable[[str], int], str]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse, f"a whole number, {low} to {high}"


SWITCHED = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""The words for a setting that is on or off."""


def _flag() -> tuple[Callable[[str], bool], str]:
    return lambda text: SWITCHED[text.strip().lower()], "1/true/yes/on or 0/false/no/off"


def _word(*words: str) -> tuple[Callable[[str], str], str]:
    return lambda text: words[words.index(text.strip().lower())], " or ".join(words)


def _retention() -> tuple[Callable[[str], str], str]:
    def parse(text: str) -> str:
        try:
            Retention.parse(text)  # the chores read it again
        except ConfigError as error:
            raise ValueError from error
        return text

    return parse, FORMAT


def _name(pattern: re.Pattern[str], rule: str, none: str = "") -> tuple[Callable[[str], str], str]:
    def parse(text: str) -> str:
        if not pattern.fullmatch(text) and (text or not none):
            raise ValueError
        return text

    return parse, f"a name of {rule}{none}"


def _text() -> tuple[Callable[[str], str], str]:
    return lambda text: text, "text"


def parse_queues(text: str) -> dict[str, int]:
    """Read `default=16,emails=4` (or `default`, with the default concurrency) into concurrency by queue."""
    queues: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, count = part.partition("=")
        concurrency = int(count) if equals else 0
        if not QUEUE.fullmatch(name) or not 0 <= concurrency <= MAX_CONCURRENCY or (equals and not concurrency):
            raise ValueError
        queues[name] = concurrency
    if not queues:
        raise ValueError
    return queues


MAX_CONCURRENCY = 1_000
"""Executor threads of one queue in one process: each costs a stack and a slot in shared memory; more belongs in processes."""


SHORTEST_BEAT = 0.2
"""Seconds that a try to beat must be able to take, with its connection: six round trips (TCP, TLS, a password, the statement)
of 30 ms."""


def _queues() -> tuple[Callable[[str], dict[str, int]], str]:
    return parse_queues, f"NAME or NAME=CONCURRENCY, comma-separated, concurrency 1 to {MAX_CONCURRENCY}"


def _setting(default: object, parser: tuple[Callable[[str], Any], str], help: str, why: str) -> Any:  # noqa: A002 - it is the help
    parse, allowed = parser
    metadata = {"parse": parse, "allowed": allowed, "help": help, "why": why}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True, repr=False)
class Config:
    """Every setting of fastq. `Config.load()` reads the environment too; the CLI passes the flags that were given."""

    database_url: str = _setting("", _text(), "the Postgres to use; empty: an embedded one, for development", "nothing to guess")
    data_dir: str = _setting(
        ".fastq/postgres", _text(), "the folder of the embedded Postgres", "beside the code it serves, and easy to remove"
    )
    schema: str = _setting("fastq", _name(SCHEMA, SCHEMA_RULE), "the schema of fastq's tables", "one word to find in psql")
    procs: int = _setting(0, _whole(0, 256), "worker processes; 0: one per core", "one interpreter keeps one core busy")
    queues: dict[str, int] = _setting(  # noqa: RUF009 - a field() with a default_factory
        {"default": 0}, _queues(), "queues to work, with their concurrency per process", "the queue that enqueue uses"
    )
    threads: int = _setting(
        16, _whole(1, MAX_CONCURRENCY), "concurrency of a queue that names none", "jobs mostly wait: for a database, for an API"
    )
    max_args_bytes: int = _setting(
        262_144, _whole(64, 16_777_216), "the largest args that enqueue accepts", "a claim brings thousands of jobs at once"
    )
    batch: int = _setting(
        5_000,
        _whole(1, 20_000),
        "the most jobs in one claim or completion",
        "2,000 was slower in most runs of fastq bench, 8,000 no faster; on a noisy machine",
    )
    prefetch: float = _setting(
        0.05, _seconds(0, 10), "jobs to hold ready, as seconds of the present pace", "ten round trips to a database nearby"
    )
    prefetch_bytes: int = _setting(
        33_554_432,
        _whole(65_536, 1_073_741_824),
        "the most bytes of args, as JSON, that a process holds, from their claim until their outcome is written",
        "small beside what a process takes anyway; 128 jobs of the largest args that enqueue accepts",
    )
    archive: bool = _setting(True, _flag(), "keep a row of each completed job", "history is what people look for first")
    archive_days: int = _setting(7, _whole(1, 3_650), "days to keep finished jobs", "long enough to look into last weekend")
    keep: str = _setting(
        "",
        _retention(),
        "days to keep finished jobs of a state, a queue, or queue:state, where they differ",
        "the same for all",
    )
    once_days: float = _setting(
        30.0, _number(0.01, 3_650), "days to remember what Singleton.once was asked", "longer than anything is tried again"
    )
    reindex_interval: float = _setting(
        86_400.0, _seconds(0, 31_536_000), "seconds between looks whether an index is worth building anew; 0: never", "daily"
    )
    reindex_timeout: float = _setting(
        600.0, _seconds(1, 86_400), "seconds after which building an index is given up", "it waits for old transactions"
    )
    poll_interval: float = _setting(
        1.0, _seconds(0.01, 60), "seconds between looks at an idle queue", "bounds what a lost wake-up or a late commit can cost"
    )
    poll_only: bool = _setting(
        False, _flag(), "do not LISTEN and do not prepare: for a pooler in transaction mode", "sessions are shared there"
    )
    shutdown_timeout: float = _setting(
        25.0, _seconds(0, 3_600), "seconds that running jobs get to end at a stop", "Kubernetes kills after 30"
    )
    timeout_grace: float = _setting(
        5.0,
        _seconds(0.1, 3_600),
        "seconds from a job's timeout until its thread is given up",
        "a C call must return before Python can raise",
    )
    beat_interval: float = _setting(
        5.0, _seconds(0.1, 60), "seconds between signs of life", "a third of the time to live: two may be lost"
    )
    process_ttl: float = _setting(
        15.0, _seconds(1, 3_600), "seconds after the last beat until a host counts as gone", "three beats"
    )
    lease_ttl: float = _setting(
        10.0, _seconds(1, 3_600), "seconds that a leader's lease lasts", "bounds how long nobody leads when a host is lost"
    )
    leader_domain: str = _setting(
        "default",
        _name(QUEUE, QUEUE_RULE),
        "the domain that this supervisor's queues are maintained in",
        "one leader maintains every queue",
    )
    leader_domain_from: str = _setting(
        "",
        _name(QUEUE, QUEUE_RULE, "; empty: none"),
        "a domain that leader-domain takes over from: until it is gone both may maintain the same queues",
        "only while a domain is named or renamed",
    )
    lead: bool = _setting(True, _flag(), "stand for leader", "off: only work, and leave leading to others")
    statement_timeout: float = _setting(
        10.0,
        _seconds(0.1, 600),
        "seconds until a statement of ours is cut off",
        "River's figure; a frozen peer is not seen otherwise",
    )
    max_crashes: int = _setting(
        3, _whole(1, 100), "process deaths while executing, after which a job is discarded", "twice may be bad luck"
    )
    codec: str = _setting(
        "auto", _word("auto", "c", "python"), "which twin decodes and encodes", "auto: the C core where it was built"
    )
    core_dumps: bool = _setting(
        False, _flag(), "let a process that crashes leave an image of its memory", "args and passwords are in it"
    )
    log_level: str = _setting("info", _word("debug", "info", "warning", "error"), "what is logged", "")
    log_json: bool = _setting(False, _flag(), "log one JSON object a line", "for machines")

    def __post_init__(self) -> None:
        """Refuse values that no text would be read as, and combinations that cannot work; `replace` comes here too."""
        for setting in fields(self):
            _check(setting, getattr(self, setting.name))
        interval, ttl = self.beat_interval, self.process_ttl
        if interval * 2 >= ttl or round(self.beat_timeout, 6) < SHORTEST_BEAT:
            raise ConfigError(
                f"FASTQ_BEAT_INTERVAL ({interval:g}) must be below half of FASTQ_PROCESS_TTL ({ttl:g}), and below it by "
                f"{3 * SHORTEST_BEAT:g} s: a host that loses two beats would count as gone; lower the interval to {ttl / 3:g}, "
                f"or raise the ttl to {max(3 * interval, interval + 3 * SHORTEST_BEAT):g}"
            )

    def __repr__(self) -> str:
        """Show every setting; of the database's URL without its password, since a log or a traceback may hold this."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        values["database_url"] = masked(self.database_url)
        return f"Config({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, spelt: Callable[[str], str] = str, **given: object) -> Config:
        """Build the configuration from arguments (None: not given) and the environment.

        `spelt` writes a setting's name in messages as the caller's user knows it: in Python just so, on a command line as a flag.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, object] = {}
        for setting in fields(cls):
            variable = variable_of(setting.name)
            value = given.pop(setting.name, None)
            if isinstance(value, str):
                values[setting.name] = _parse(setting, value, spelt(setting.name))
            elif value is not None:
                values[setting.name] = value
            elif environ.get(variable, "").strip():
                values[setting.name] = _parse(setting, environ[variable], variable)
        if given:
            unknown = min(given)
            near = difflib.get_close_matches(unknown, [setting.name for setting in fields(cls)], n=1)
            hint = f"did you mean {near[0]}?" if near else "fastq help settings lists them"
            raise ConfigError(f"no setting is called {unknown}; {hint}")
        return cls(**cast("dict[str, Any]", values))

    @property
    def process_count(self) -> int:
        """Return the number of worker processes, counting the cores if it was left open."""
        return self.procs or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))

    @property
    def beat_timeout(self) -> float:
        """Return the seconds that a try to beat may take, with its connection: two that are lost leave as many for a third."""
        return (self.process_ttl - self.beat_interval) / 3

    @property
    def concurrency(self) -> dict[str, int]:
        """Return the concurrency of each queue, with the default filled in."""
        return {name: count or self.threads for name, count in self.queues.items()}

    @property
    def channel(self) -> str:
        """Return the name of the notification channel: the schema's."""
        return self.schema


def settled(config: Config | None, **given: Any) -> Config:
    """Return a configuration, or without one the environment's, with the arguments beside it (None: not given) over it."""
    if config is None:
        return Config.load(**given)
    if not isinstance(config, Config):
        raise ConfigError(f"config: expected a Config, such as Config.load(procs=2), got {type(config).__name__}")
    return replace(config, **{name: value for name, value in given.items() if value is not None})


def migrate_command(schema: str) -> str:
    """Return the command that makes a schema's tables: it names the schema unless that is the default."""
    return "fastq migrate" if schema == Config.schema else f"fastq migrate --schema {schema}"


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"FASTQ_{name.upper()}"


def text_of(value: object) -> str:
    """Return the text that is read as this value of a setting."""
    if isinstance(value, dict):
        return ",".join(f"{name}={count}" if count else f"{name}" for name, count in value.items())
    return str(value)


UNREADABLE = (ValueError, KeyError, OverflowError)
"""The errors that the parsers above raise."""


def _parse(setting: Field[Any], text: str, source: str) -> object:
    try:
        return setting.metadata["parse"](text)
    except UNREADABLE:
        raise _refusal(setting, text, source) from None


def _check(setting: Field[Any], value: object) -> None:
    """Refuse a value that was given in Python, unless its text would be read as just that."""
    try:
        same = setting.metadata["parse"](text_of(value)) == value
    except UNREADABLE:
        same = False
    if not same:
        raise _refusal(setting, value, setting.name)


def _refusal(setting: Field[Any], value: object, source: str) -> ConfigError:
    default = setting.default if setting.default is not MISSING else "default"
    got = f"a {type(value).__name__}" if setting.metadata["allowed"] == "text" else repr(value)  # a URL may have a password
    return ConfigError(f"{source}: expected {setting.metadata['allowed']}, got {got}; the default is {default!r}")
