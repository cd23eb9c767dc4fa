"""The keys of encrypted args: a ring by name, of which the first encrypts and all decrypt, and a key of its own for unique jobs.

    FASTQ_ARGS_KEYS=2026-11:BASE64,2026-05:BASE64    the newest first; 32 bytes each
    use_keys(keys_from_a_vault)                      or a function that returns {"2026-11": bytes, ...}, or such a dict

The keys are those of the process: of all its clients and of its worker. The thread that imports the application may say where
they come from; the thread that first needs one reads them, and any thread reads them anew when it meets the name of a key that is
not there. `_given`, `_taken` and `_ring` are written by these threads; the last one counts, and all of them find the same.

Invariant: no text that is made here has a key or a part of it. It deliberately makes no keys and keeps none on disk.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fastq.errors import ConfigError

Keys = Mapping[str, bytes]
Source = Keys | Callable[[], Keys]

KEY_BYTES = 32
"""Bytes of a key: AES-256; of the key for unique jobs at least."""

NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
"""The name of a key: it stands in each row that the key has encrypted."""

REREAD = 10.0
"""Seconds until a function is asked for keys again because of a name that it has not told: a guess at what a vault bears, from
each process."""

RULE = f"NAME:BASE64 of {KEY_BYTES} bytes each, joined by commas, the newest first"
HINT = "set FASTQ_ARGS_KEYS, or call fastq.use_keys"


class Ring(NamedTuple):
    """The keys by name, ready to be used; `newest` is the name of the one that encrypts."""

    newest: str
    ciphers: Mapping[str, Any]
    digest: bytes  # a key for digests that nobody stores beyond the life of the newest key
    read_at: float  # monotonic


class Given(NamedTuple):
    """Where the keys come from."""

    source: Source
    unique: bytes | None


_given: Given | None = None
_taken: tuple[str, str] | None = None
_settings: Callable[[], tuple[str, str]] | None = None  # how the settings of the process are read; config.py says it
_ring: Ring | None = None


def use_keys(source: Source, *, unique: bytes | None = None) -> None:
    """Say where the keys of encrypted args come from, in place of the settings: for all clients and workers of this process.

    `source`: keys by name, the newest first, or a function that returns them. It is called when the first key is needed, and
    again for args that were encrypted by a key which it has not told, every ten seconds at most. `unique`: the key for the
    digests of unique jobs, which never changes.
    """
    global _given, _ring
    if not callable(source):
        _checked(source)
    secret: object = unique
    if secret is not None and (not isinstance(secret, bytes) or len(secret) < KEY_BYTES):
        raise ConfigError(f"use_keys: unique: expected {KEY_BYTES} bytes or more")
    _given, _ring = Given(source, unique), None


def read_settings_by(read: Callable[[], tuple[str, str]]) -> None:
    """Say how the two settings are read, where the application says nothing."""
    global _settings  # noqa: PLW0603 - written once, when config.py is imported
    _settings = read


def take(keys: str, unique: str) -> None:
    """Take the keys of a configuration: those of the environment, or others that were given in Python."""
    global _taken, _ring
    if keys and _taken != (keys, unique):
        _taken, _ring = (keys, unique), None


def forget() -> None:
    """Read the keys anew when they are needed next, from the environment: for tests."""
    global _given, _taken, _ring  # noqa: PLW0603 - as in use_keys
    _given = _taken = _ring = None


def ring() -> Ring:
    """Return the ring; ConfigError if there are no keys."""
    global _ring  # noqa: PLW0603 - any thread makes the same
    if _ring is None:
        _ring = _made(_source())
    return _ring


def cipher(name: str) -> Any:
    """Return the cipher of a key; None if there is no key of that name, though the source was asked again."""
    global _ring  # noqa: PLW0603 - as above
    found = ring()
    asks_again = _given is not None and callable(_given.source) and time.monotonic() - found.read_at >= REREAD
    if name not in found.ciphers and asks_again:
        found = _ring = _made(_source())
    return found.ciphers.get(name)


def keyed(digest: bytes) -> bytes:
    """Return the key of a unique job with secret args, made of their digest."""
    key = (_given.unique if _given is not None else None) or secret_in(_told()[1])
    if key is None:
        raise ConfigError(
            "a unique job with encrypted args needs a key for its digest, one that never changes: set FASTQ_ARGS_UNIQUE_KEY to "
            f"the base64 of {KEY_BYTES} random bytes, or write fastq.use_keys(..., unique=...)"
        )
    import hmac  # noqa: PLC0415 - OpenSSL takes longer to load than all settings, which read this module

    return hmac.digest(key, digest, "sha256")


def keys_in(text: str) -> dict[str, bytes]:
    """Read the setting; ValueError, without a part of it, if it is none."""
    keys: dict[str, bytes] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, key = part.partition(":")
        if not NAME.fullmatch(name) or name in keys:
            raise ValueError
        keys[name] = _bytes(key)
        if len(keys[name]) != KEY_BYTES:
            raise ValueError
    return keys


def secret_in(text: str) -> bytes | None:
    """Read the setting of the key for unique jobs; None if it is empty."""
    key = _bytes(text.strip()) if text.strip() else None
    if key is not None and len(key) < KEY_BYTES:
        raise ValueError
    return key


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError from None


def _told() -> tuple[str, str]:
    """Return the two settings."""
    return _taken or (_settings() if _settings is not None else ("", ""))


def _source() -> Keys:
    if _given is None:
        return keys_in(_told()[0])
    return _given.source() if callable(_given.source) else _given.source


def _checked(keys: object) -> dict[str, bytes]:
    """Return the keys, or raise ConfigError with the rule."""
    if not isinstance(keys, Mapping):
        raise ConfigError(
            f"use_keys: expected a dict of keys by name, or a function that returns one, got a {type(keys).__name__}"
        )
    for name, key in keys.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError("use_keys: expected names of letters, digits and '_.-', 64 at most")
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ConfigError(f"use_keys: key '{name}': expected {KEY_BYTES} bytes")
    return dict(keys)


def _made(keys: object) -> Ring:
    checked = _checked(keys)
    if not checked:
        raise ConfigError(f"encrypted args need a key: {HINT} ({RULE})")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("encrypted args need the package cryptography: pip install 'fastq-jobs[secrets]'") from error
    import hashlib  # noqa: PLC0415 - as in `keyed`

    newest = next(iter(checked))
    digest = hashlib.sha256(b"fastq digest 1" + checked[newest]).digest()
    return Ring(newest, {name: AESGCM(key) for name, key in checked.items()}, digest, time.monotonic())
