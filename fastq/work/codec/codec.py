"""The one door to the codec: the C core if it was built, else its Python twin.

`FASTQ_CODEC` asks for one of them; `auto` takes C where it is there. Decided once per process, at its start: code that has a
configuration calls `use`, before any thread of ours runs. Without that, it is decided at the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.config import Config
from fastq.errors import ConfigError
from fastq.work.codec import twin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from fastq.jobs.worker import Worker
    from fastq.work.codec.claimed import Claimed

MAX_TEXT = 2**20
"""Bytes that are kept of one text. More than any text of outcome.py has; it bounds a statement in any case."""

_twin: ModuleType | None = None  # written by `use`


def use(wanted: str = "auto") -> str:
    """Take the twin that is wanted, `auto`, `c` or `python`, and name it; ConfigError if C is wanted and was not built."""
    global _twin  # noqa: PLW0603 - one decision per process, like which extension module is loaded
    found: ModuleType | None = None
    if wanted != "python":
        try:
            from fastq.work.codec import core as found  # noqa: PLC0415 - may not be there
        except (ImportError, AttributeError) as error:  # not built, or of another version
            if wanted == "c":
                raise ConfigError(
                    f"FASTQ_CODEC=c: expected the C core, but it cannot be used ({error}); "
                    f"install from a wheel or with a C compiler, or leave FASTQ_CODEC at 'auto'"
                ) from error
    _twin = found or twin
    return in_use()


def in_use() -> str:
    """Name the twin that works here."""
    return "python" if _chosen() is twin else "c"


def decode(claimed: Claimed, workers: Mapping[str, Worker[Any]]) -> tuple[twin.Jobs, twin.Jobs, twin.Jobs]:
    """Make the jobs of a claim: those to execute, those that do not decode (outcome: the error), those of unknown kinds."""
    made: tuple[twin.Jobs, twin.Jobs, twin.Jobs] = _chosen().decode(claimed, workers)
    return made


def encode_ids(ids: Sequence[int]) -> bytes:
    """Encode a bigint[] in Postgres' binary format."""
    encoded: bytes = _chosen().encode_ints(ids)
    return encoded


def encode_floats(values: Sequence[float]) -> bytes:
    """Encode a float8[] in Postgres' binary format."""
    encoded: bytes = _chosen().encode_floats(values)
    return encoded


def encode_bools(values: Sequence[bool]) -> bytes:
    """Encode a boolean[] in Postgres' binary format."""
    encoded: bytes = _chosen().encode_bools(values)
    return encoded


def encode_texts(values: Sequence[str | None]) -> bytes:
    """Encode a text[] in Postgres' binary format; characters that Postgres cannot store become U+FFFD."""
    encoded: bytes = _chosen().encode_texts(values, MAX_TEXT)
    return encoded


def _chosen() -> ModuleType:
    if _twin is None:
        use(Config.load().codec)
    assert _twin is not None
    return _twin
