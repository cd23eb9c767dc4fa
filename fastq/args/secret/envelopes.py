"""Encrypt a part of args, and decrypt it: an object of JSON that says which key it takes.

    {"$fq": 1, "key": "2026-11", "nonce": "...", "data": "..."}

AES-256-GCM, with 12 random bytes as the nonce. The kind and the place in the args belong to it as associated data: what was moved
to another field or to a job of another kind does not open. The place names fields and not elements, so `cards[].number` is that
of each card, and a list may grow.

Sealed in the thread that enqueues and in that of an operator who changes keys; opened in these and in the producer's thread of a
worker process. Pure functions but for the ring and the random bytes.

Invariant: an error says the name of the key and the place, and nothing that was encrypted. It deliberately knows no types.
"""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.secret import ring
from fastq.errors import ArgsError, ConfigError
from fastq.texts import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIGN, FORM = "$fq", 1
"""The key by which an object is an envelope, and the form of this one."""

NONCE = 12
"""Bytes of a nonce: those that GCM is made for. Random ones are safe for some billions of envelopes of one key."""

_read: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def sealed(value: Any, kind: str, path: str) -> dict[str, Any]:
    """Encrypt a plain value with the newest key."""
    keys = ring.ring()
    nonce = os.urandom(NONCE)
    data = keys.ciphers[keys.newest].encrypt(nonce, _write(value), _about(kind, path))
    return {SIGN: FORM, "key": keys.newest, "nonce": _text(nonce), "data": _text(data)}


def opened(tree: Any, kinds: Sequence[str], path: str = "") -> Any:
    """Return JSON with its envelopes opened; `kinds` are the names that the kind of the job may have."""
    if isinstance(tree, list):
        return [opened(part, kinds, f"{path}[]") for part in tree]
    if not isinstance(tree, dict):
        return tree
    if SIGN in tree:
        return _open(tree, kinds, path)
    return {name: opened(part, kinds, f"{path}.{name}".removeprefix(".")) for name, part in tree.items()}


def resealed(tree: Any, kind: str, path: str = "") -> Any:
    """Return JSON with each envelope of another key encrypted anew with the newest one; the same object if there is none."""
    if isinstance(tree, list):
        parts = [resealed(part, kind, f"{path}[]") for part in tree]
        return tree if all(new is old for new, old in zip(parts, tree, strict=True)) else parts
    if not isinstance(tree, dict):
        return tree
    if SIGN in tree:
        return tree if tree.get("key") == ring.ring().newest else sealed(_open(tree, [kind], path), kind, path)
    named = {name: resealed(part, kind, f"{path}.{name}".removeprefix(".")) for name, part in tree.items()}
    return tree if all(named[name] is part for name, part in tree.items()) else named


def keys_in(tree: Any) -> set[str]:
    """Return the names of the keys that have encrypted some part of JSON; "?" for one that is no name."""
    if isinstance(tree, list):
        return set().union(*map(keys_in, tree))
    if not isinstance(tree, dict):
        return set()
    if SIGN not in tree:
        return set().union(*map(keys_in, tree.values()))
    name = tree.get("key")
    return {name if isinstance(name, str) and ring.NAME.fullmatch(name) else "?"}


def _open(envelope: dict[str, Any], kinds: Sequence[str], path: str) -> Any:
    name = envelope.get("key")
    told = f"encrypted with the key '{name}'" if isinstance(name, str) and ring.NAME.fullmatch(name) else "encrypted"
    if envelope[SIGN] != FORM:
        raise ArgsError(kinds[0], "encrypted in a form that this program does not know: a newer one may", field=path)
    try:
        cipher = ring.cipher(str(name))
    except Exception as error:  # noqa: BLE001 - a source of keys that does not answer must not end the producer
        why = str(error) if isinstance(error, ConfigError) else f"the keys could not be read: {name_of(error)}"
        raise ArgsError(kinds[0], f"{told}, and {why}", field=path) from None
    if cipher is None:
        known = ", ".join(ring.ring().ciphers)
        raise ArgsError(kinds[0], f"{told}, and this program has {known} alone: {ring.HINT}", field=path)
    try:
        nonce, data = (base64.b64decode(envelope[part], validate=True) for part in ("nonce", "data"))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise ArgsError(kinds[0], f"{told}, and no envelope that can be read", field=path) from None
    for kind in kinds:
        try:
            return _read(cipher.decrypt(nonce, data, _about(kind, path)))
        except Exception:  # noqa: BLE001, S112 - InvalidTag, or a nonce of a wrong length: perhaps it is of a former name
            continue
    what = "it was changed, moved from another field or kind, or another key has this name"
    raise ArgsError(kinds[0], f"{told}, and does not open: {what}", field=path)


def _about(kind: str, path: str) -> bytes:
    return f"fastq args {FORM}\0{kind}\0{path}".encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
