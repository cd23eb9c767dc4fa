"""The statements of fastq/sql by name: read once, put into a schema, and qualified for sessions that are not pinned.

Used by every process, in any thread that has a statement to run. The texts are kept in caches of the process, which all threads
share and nothing empties but a test that moves the clock. The schema's name is replaced here: the files say `fastq.`, as a user
of psql sees it too.
"""

from __future__ import annotations

import functools
import re
from importlib import resources

from fastq.sql.qualified import qualified as _qualified

_CLOCKS = re.compile(r"\b(?:clock_timestamp|statement_timestamp|now)\(\)")
_COMPARES_CLOCKS = "transaction_id"
"""A statement that asks whether its transaction was begun by an earlier one: the server's own clocks say that, and no other."""

_clock = ""  # the function of our schema that stands for the server's clock, '' for none; written by `use_clock`


def use_clock(function: str) -> None:
    """Have the statements of this process ask a function of fastq's schema for the time, '' for the server: a test moves it."""
    global _clock  # noqa: PLW0603 - one clock per process; no program but a test calls this
    _clock = function
    for cached in (statement, qualified, _body):
        cached.cache_clear()


def clock() -> str:
    """Return the function that stands for the server's clock; '' for none."""
    return _clock


@functools.cache
def statement(name: str, schema: str = "fastq") -> str:
    """Return the text of sql/NAME.sql with the schema's own name in it and the header taken off."""
    return in_schema(_body(name), schema)


@functools.cache
def qualified(name: str, schema: str = "fastq") -> str:
    """Return the same statement for a session whose search path is somebody else's: it names the schema of all that it uses."""
    return in_schema(_qualified(_body(name)), schema)


@functools.cache
def _body(name: str) -> str:
    text = resources.files("fastq").joinpath("sql", f"{name}.sql").read_text()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
    return _CLOCKS.sub(f"fastq.{_clock}()", body) if _clock and name != _COMPARES_CLOCKS else body


def read_statements() -> None:
    """Read all statements now: later there may be no descriptor left for it, or others in their place, by an update."""
    for file in resources.files("fastq").joinpath("sql").iterdir():
        if file.name.endswith(".sql"):
            _body(file.name.removesuffix(".sql"))


def in_schema(text: str, schema: str) -> str:
    """Put another schema's name where the text says `fastq.`; the name has been checked by `Config`."""
    return text if schema == "fastq" else re.sub(r"\bfastq\.", f'"{schema}".', text)
