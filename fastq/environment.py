"""Write settings to the environment for the processes and programs that fastq starts, and find mistakes in it.

Called by the command line before it imports the app, by the supervisor before it starts the fork server, and by the fork server.
Settings are read from the environment by config.py; these two modules are the only ones that touch it. All of it runs in main
threads, and the environment is the only state.

Invariant: a flag that a command was given reaches an app's own `Client()`, and the programs that jobs start, as if it had been
the variable. Only programs of the same user, and root, can read it there; a command line can be read by everybody.
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING

from fastq.config import Config, text_of, variable_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_SETTINGS = (
    *("FASTQ_SERVICE_", "FASTQ_PORT"),  # variables that Kubernetes gives each pod of a service called fastq
    *("FASTQ_TEST_", "FASTQ_JSON_SUITE", "FASTQ_ASAN", "FASTQ_DEBUG", "FASTQ_COVERAGE", "FASTQ_WERROR"),  # tests and builds
)
"""Beginnings of variables that are ours by name and yet no misspelt settings."""


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return for each FASTQ_* variable that is no setting the probable one: it has no effect, and nobody notices a slip."""
    environ = os.environ if environ is None else environ
    known = {setting.name.upper() for setting in fields(Config)}
    told = []
    for name in sorted(name.removeprefix("FASTQ_") for name in environ if name.startswith("FASTQ_")):
        if name not in known and not f"FASTQ_{name}".startswith(NO_SETTINGS):
            import difflib  # noqa: PLC0415 - for a mistake alone

            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean FASTQ_{near[0]}?" if near else "fastq help settings lists them"
            told.append(f"FASTQ_{name} is no setting; {hint}")
    return told


def is_set(name: str) -> bool:
    """Tell whether the environment says anything of a setting."""
    return bool(os.environ.get(variable_of(name), "").strip())


def publish(config: Config) -> None:
    """Put the settings that a command has resolved into the environment: flags, and the database that was found."""
    default = Config()
    for setting in fields(Config):
        variable, value = variable_of(setting.name), getattr(config, setting.name)
        if value != getattr(default, setting.name) or is_set(setting.name):
            os.environ[variable] = text_of(value)


def service_manager(pid: int) -> tuple[str, float | None]:
    """Take the socket of a service manager out of the environment, and the seconds between two signs of life that it allows.

    '' and None if none was named; signs of life are wanted only of the process that they are meant for.
    """
    address, wanted, whose = (os.environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"))
    ours = wanted.isdecimal() and int(wanted) > 0 and whose in ("", str(pid))
    return (address if address[:1] in ("/", "@") else ""), (int(wanted) / 1e6 if ours else None)


def tell_fork_server(target: str, app_dir: str) -> None:
    """Leave the app's name in the environment that the fork server inherits: its preload takes no arguments."""
    os.environ["_FASTQ_FORK_SERVER"] = f"{target}\n{app_dir}"


def fork_server_settings() -> tuple[str, str]:
    """Return the app's name and folder, in the fork server."""
    target, _, app_dir = os.environ.get("_FASTQ_FORK_SERVER", "").partition("\n")
    return target, app_dir
