"""The codec of a kind with encrypted args, all of them or fields that are Secrets: sealed behind its checks, opened before them.

One per kind. `encode` runs in the thread that enqueues, and in the one that imports an application with periodic jobs; `decode`
runs in the producer's thread of a worker process. It has no state that changes.

Invariant: args are checked as those of any kind, in plain JSON that is never stored; args that were stored plain, by an older
program, are read as they are. No message of the codec has a value that is encrypted. It deliberately reads job by job, with a
walk through the JSON of each: only kinds with encrypted args have this codec.
"""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.faults import UNREADABLE, as_known
from fastq.args.secret import envelopes, ring
from fastq.args.secret.hidden import CONTEXT, ENVELOPE, Secret, read_secret
from fastq.args.text import ArgsCodec
from fastq.errors import ArgsError

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "$fq-plain"
"""The key of the object that stands for a Secret until it is sealed; it lives within one call of `encode`."""

UNSEEN = "its value is one that a worker would not see as it was given; it is not shown, since it is encrypted"
OWN_WORDS = "the type's own code has refused them; its words are not shown, since the args are encrypted"

_ELEMENT = re.compile(r"\[[^\]]*\]")

_read = msgspec.json.Decoder().decode
_read_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


class SealingCodec(ArgsCodec[Any]):
    """Convert the args of one kind to JSON with encrypted parts, and back."""

    as_written = False

    def __init__(self, names: Sequence[str], type_: Any, *, whole: bool, forbid_unknown_keys: bool = False) -> None:
        super().__init__(names[0], type_, forbid_unknown_keys=forbid_unknown_keys)
        self.whole = whole
        self._names = names
        if self._pydantic:
            self._to_json = lambda model: _dump(model, _plain)
            self._to_marked: Any = lambda model: _dump(model, _marked)
        else:
            self._to_json = msgspec.json.Encoder(enc_hook=_plain).encode
            self._to_marked = msgspec.json.Encoder(enc_hook=_marked).encode
            self._from_json = msgspec.json.Decoder(type_, dec_hook=read_secret).decode
            self._read_batch = msgspec.json.Decoder(list[type_], dec_hook=read_secret).decode

    def encode(self, args: Any, max_bytes: int | None = None) -> bytes:
        """Write args as JSON and encrypt it, or raise ArgsError if the worker would not see them equal."""
        plain = self.plain(args, max_bytes)
        if ENVELOPE in plain:
            raise ArgsError(self.kind, "a key '$fq': expected any other, since it marks what is encrypted")
        stored = _write(self._sealed(args, plain))
        self._check_size(stored, max_bytes)
        return stored

    def plain(self, args: Any, max_bytes: int | None = None) -> bytes:
        """Write args as JSON that is not encrypted: to be checked and to make digests of, never to be stored."""
        try:
            return super().encode(args, max_bytes)
        except ArgsError as error:
            raise self._concealed(error, args) from None

    def digest(self, args: Any) -> bytes:
        """Return a digest of args that tells nothing of them, and is the same for as long as the newest key is."""
        return hmac.digest(ring.ring().digest, self.plain(args), "sha256")

    def decode(self, encoded: bytes) -> Any:
        """Read the args of one job, or raise ArgsError that names the field."""
        try:
            return super().decode(self.opened(encoded))
        except ArgsError as error:
            if self.whole and error.__cause__ is not None:
                raise ArgsError(self.kind, OWN_WORDS, field=error.field) from None
            raise
        except Exception:  # noqa: BLE001 - of `opened`: JSON that Postgres takes, and no converter; its text may have a value
            raise ArgsError(self.kind, UNREADABLE) from None

    def decode_whole(self, blob: bytes) -> list[Any] | None:
        """Read one JSON array at once; None if the args have to be read one by one, to find which are bad."""
        if ENVELOPE not in blob:
            return super().decode_whole(blob)
        try:
            texts = [self.opened(bytes(element)) for element in _read_elements(blob)]
        except Exception:  # noqa: BLE001 - they are read one by one then, and the bad one is told
            return None
        return super().decode_whole(b"[" + b",".join(texts) + b"]")

    def opened(self, encoded: bytes) -> bytes:
        """Return stored JSON with all of it decrypted."""
        if ENVELOPE not in encoded:
            return encoded
        return _write(envelopes.opened(_read(encoded), self._names))

    def _sealed(self, args: Any, plain: bytes) -> Any:
        if self.whole:
            return envelopes.sealed(msgspec.Raw(plain), self.kind, "")
        return _walked(_read(self._to_marked(args)), "", lambda value, path: envelopes.sealed(value, self.kind, path))

    def _concealed(self, error: ArgsError, args: Any) -> ArgsError:
        """Return an error without values that are encrypted; its field may be told."""
        if not isinstance(args, self._class):
            return error
        if not self.whole and not self._is_secret(error.field, args):
            return error
        return ArgsError(self.kind, UNSEEN, field=error.field)

    def _is_secret(self, field: str, args: Any) -> bool:
        paths: list[str] = []
        try:
            _walked(_read(self._to_marked(args)), "", lambda _, path: paths.append(path))
        except Exception:  # noqa: BLE001 - args that cannot be written at all: the error may show any value
            return True
        place = _ELEMENT.sub("[]", field)
        return any(place == path or place.startswith((f"{path}.", f"{path}[")) for path in paths)


def _walked(tree: Any, path: str, seal: Any) -> Any:
    """Return JSON with each marked value as `seal` makes it, given its place."""
    if isinstance(tree, list):
        return [_walked(part, f"{path}[]", seal) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if MARK in tree:
        return seal(tree[MARK], path)
    return {name: _walked(part, f"{path}.{name}".removeprefix("."), seal) for name, part in tree.items()}


def _plain(value: object) -> Any:
    return value.reveal() if isinstance(value, Secret) else as_known(value)


def _marked(value: object) -> Any:
    return {MARK: value.reveal()} if isinstance(value, Secret) else as_known(value)


def _dump(model: Any, write: Any) -> bytes:
    context = {CONTEXT: write}
    dumped: str = model.model_dump_json(round_trip=True, by_alias=True, warnings="none", context=context)
    return dumped.encode()
