"""Make flags and help of Config's own declarations, so that a setting is written down once.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from fastq.cli.terminal.output import folded, note
from fastq.config import Config, variable_of
from fastq.environment import unknown_variables
from fastq.settings.declaring import parse_queues

DATABASE = ("database_url", "schema", "data_dir")
"""The settings that are flags of every command that needs the database."""


def add_database(parser: argparse.ArgumentParser, none: Any = None) -> None:
    """Add the flags that say which database; `none` is the value of one that is not given."""
    group = parser.add_argument_group("which database")
    for setting in fields(Config):
        if setting.name in DATABASE:
            _add(group, setting, none)


def add_some(parser: argparse.ArgumentParser, title: str, names: Sequence[str]) -> None:
    """Add the flags of some settings."""
    group = parser.add_argument_group(title)
    for setting in fields(Config):
        if setting.name in names:
            _add(group, setting)


def add_all(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting."""
    add_database(parser)
    group = parser.add_argument_group("settings", "why each default is what it is: fastq help settings")
    for setting in fields(Config):
        if setting.name not in DATABASE and not setting.metadata["secret"]:
            _add(group, setting)


def load(options: argparse.Namespace) -> Config:
    """Build the configuration of the flags that were given and the environment."""
    given = {setting.name: getattr(options, setting.name, None) for setting in fields(Config)}
    if isinstance(given["queues"], list):
        given["queues"] = ",".join(given["queues"])
    return Config.load(spelt=flag_of, **given)


def tell_unknown() -> None:
    """Note each variable that is like a setting's and none."""
    for text in unknown_variables():
        note(folded(f"warning: {text}", len("warning: "), sys.stderr))


def reference() -> str:
    """Describe every setting: its flag, variable, default and meaning, the values allowed, and the reason of the default."""
    import textwrap  # noqa: PLC0415 - for this command alone

    blocks = []
    for setting in fields(Config):
        meta = setting.metadata
        flag = "" if meta["secret"] else f"{flag_of(setting.name)}   "
        head = f"{flag}{variable_of(setting.name)}   default: {_default(setting) or 'none'}"
        text = f"{meta['help']}. Allowed: {meta['allowed']}." + (f" Why: {meta['why']}." if meta["why"] else "")
        blocks.append(f"{head}\n{textwrap.indent(textwrap.fill(text, 75), '    ')}")
    intro = (
        "Each setting is a flag of `fastq run` and a variable, a secret a variable\n"
        "alone; a flag that is given wins, then the variable, then the default."
    )
    return f"{intro}\n\n" + "\n\n".join(blocks)


def _add(group: argparse._ArgumentGroup, setting: Field[Any], none: Any = None) -> None:
    meta = setting.metadata
    default = f"default {_default(setting)}" if _default(setting) else "no default"
    text = f"{meta['help']} [{variable_of(setting.name)}; {default}]".replace("%", "%%")
    if isinstance(setting.default, bool):
        group.add_argument(flag_of(setting.name), dest=setting.name, action=argparse.BooleanOptionalAction, help=text)
    elif setting.name == "queues":
        group.add_argument("--queue", dest="queues", action="append", type=_queue, metavar="NAME[=CONCURRENCY]", help=text)
    else:
        group.add_argument(flag_of(setting.name), dest=setting.name, metavar=_metavar(setting), default=none, help=text)


def _queue(text: str) -> str:
    try:
        parse_queues(text)
    except ValueError:
        allowed = Config.__dataclass_fields__["queues"].metadata["allowed"]
        raise argparse.ArgumentTypeError(f"expected {allowed}; got {text!r}") from None
    return text


def flag_of(name: str) -> str:
    """Return the flag of a setting."""
    names = {"database_url": "database", "queues": "queue"}
    return "--" + names.get(name, name).replace("_", "-")


def _metavar(setting: Field[Any]) -> str:
    words = {"database_url": "URL", "data_dir": "FOLDER", "keep": "RULES", "health": "HOST:PORT"}
    allowed: str = setting.metadata["allowed"]
    if setting.name in words:
        return words[setting.name]
    if allowed.startswith("a name"):
        return "NAME"
    if allowed.startswith("seconds"):
        return "SECONDS"
    return "N" if allowed.startswith(("a whole", "a number")) else allowed.replace(" or ", "|")


def _default(setting: Field[Any]) -> str:
    if setting.default is MISSING:
        return "the queue default"
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)
