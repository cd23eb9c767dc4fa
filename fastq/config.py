"""One frozen `Config`: every setting as a flag, a FASTQ_* variable and a default with its reason.

Read once at the start, by the main thread of a command or the thread that makes a client; worker processes are handed the same
values. environment.py writes settings to the environment, for other programs and clients to read here. The module keeps nothing.
Precedence: an argument or flag that was given, then the environment, then the default; None means "not given".

A setting is declared once, in a group of fastq/settings/: its name gives the variable (`shutdown_timeout` ->
FASTQ_SHUTDOWN_TIMEOUT) and the flag (--shutdown-timeout); `help` and `why` feed the CLI's help and the reference in docs/. A bad
value from any of the three is a ConfigError with the name as it was spelt there, the value and the rule. A room with settings of
its own adds a group there and its class to the bases of `Config`. It deliberately does not read files.

Invariant: of a Config that exists, every value is allowed. Others put its schema into statements without asking again. Made in
the main thread at the start of a program or by a client's caller, and frozen: every thread may read it.
"""

from __future__ import annotations

import os
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

from fastq.args.secret.ring import read_settings_by
from fastq.errors import ConfigError
from fastq.masked import HIDDEN, masked
from fastq.settings.cluster import ClusterSettings
from fastq.settings.database import DatabaseSettings
from fastq.settings.declaring import UNREADABLE
from fastq.settings.instance import InstanceSettings
from fastq.settings.running import RunningSettings
from fastq.settings.secrets import SecretSettings
from fastq.settings.upkeep import UpkeepSettings
from fastq.settings.waits import WaitSettings
from fastq.settings.work import WorkSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SHORTEST_BEAT = 0.2
"""Seconds that a try to beat must be able to take, with its connection: six round trips (TCP, TLS, a password, the statement)
of 30 ms."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Config(
    InstanceSettings,
    SecretSettings,
    RunningSettings,
    ClusterSettings,
    WaitSettings,
    UpkeepSettings,
    WorkSettings,
    DatabaseSettings,
):
    """Every setting of fastq. `Config.load()` reads the environment too; the CLI passes the flags that were given."""

    # The fields come in the order of the groups, the last one first: so the help and the reference begin with the database.

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
        """Show every setting but keys, the database's URL without its password: a log or a traceback may hold this."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        values["database_url"] = masked(self.database_url)
        values |= {setting.name: HIDDEN for setting in fields(self) if setting.metadata["secret"] and values[setting.name]}
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
            import difflib  # noqa: PLC0415 - for a mistake alone

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
    hidden = setting.metadata["secret"] or setting.metadata["allowed"] == "text"  # a URL may have a password
    got = f"a {type(value).__name__}" if hidden else repr(value)
    return ConfigError(f"{source}: expected {setting.metadata['allowed']}, got {got}; the default is {default!r}")


def _keys_of_args() -> tuple[str, str]:
    config = Config.load()
    return config.args_keys, config.args_unique_key


read_settings_by(_keys_of_args)
