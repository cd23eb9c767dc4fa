"""Upgrade the args of older jobs, one version after the other, before they are read.

    @dataclass
    class MailArgs(Args, kind="mail", version=2): ...

    @upgrade(MailArgs, from_version=1)
    def one_address_is_a_list(args): return {"to": [args.pop("address")], **args}

The steps are declared in the thread that imports the application, beside the args. They run where stored args are read: in the
producer's thread of a worker process, in the main thread of `fastq check`, and in tests of programs. The kind owns its `Upgrades`
and its codecs of older versions; they do not change after the import.

Invariant: a step sees the JSON object as its version wrote it, or as the step before it left it, and nothing else, so it goes on
working when the class changes again. It deliberately stores nothing: the row keeps the args that were enqueued, and each attempt
upgrades them anew; a program of the older version can still run the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.faults import UNREADABLE, as_known, show
from fastq.args.text import ArgsCodec
from fastq.errors import ArgsError, OptionError
from fastq.texts import name_of, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_VERSION = 32_767
"""Versions of a kind: far more than anybody writes, and a catch for a timestamp or a date that is given for one."""

_write = msgspec.json.Encoder(enc_hook=as_known).encode
_read: Callable[[bytes], Any] = msgspec.json.Decoder().decode


def check_version(version: object) -> int:
    """Return the version of a kind's args, or raise OptionError with the rule."""
    if type(version) is not int or not 1 <= version <= MAX_VERSION:
        raise OptionError(f"version {show(version)}: expected a whole number from 1 to {MAX_VERSION}")
    return version


class Upgrades:
    """The steps of one kind, by the version that each starts from."""

    def __init__(self, kind: str, version: int) -> None:
        self._kind = kind
        self._version = version
        self._steps: dict[int, Any] = {}
        self._codecs: dict[int, OlderCodec] = {}  # by version; two threads at once make the same

    def add(self, from_version: object, function: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Add the step from one version to the next."""
        told_of = f"kind '{self._kind}': upgrade from version {show(from_version)}"
        if type(from_version) is not int or not 1 <= from_version < self._version:
            what = f"the kind has version {self._version}: write version=... beside its name, one more for each change"
            raise OptionError(f"{told_of}: expected a version below that of the kind; {what}")
        if not callable(function):
            raise OptionError(f"{told_of}: expected a function of the args as a dict, got {show(function)}")
        if from_version in self._steps:
            raise OptionError(
                f"{told_of}: there are two functions for it, {_place(self._steps[from_version])} and {_place(function)}"
            )
        self._steps[from_version] = function

    @property
    def oldest(self) -> int:
        """Return the oldest version that can be read."""
        return min(self._steps, default=self._version)

    def missing(self) -> int | None:
        """Return the version from which a step is missing; None if there is one for each, from the oldest on."""
        if self._version > 1 and not self._steps:
            return self._version - 1
        return next((version for version in range(self.oldest, self._version) if version not in self._steps), None)

    def codec(self, version: int, newest: ArgsCodec[Any]) -> OlderCodec:
        """Return how the args of an older version are read; made once."""
        if version not in self._codecs:
            self._codecs[version] = OlderCodec(newest, self, version)
        return self._codecs[version]

    def upgraded(self, args: Any, version: int, told: Callable[[BaseException], str] = told) -> Any:
        """Return the args of a version as the newest one has them, or raise ArgsError that names the step."""
        if version < self.oldest:
            what = f"their version is {version}, and this program upgrades args from version {self.oldest} on"
            raise ArgsError(self._kind, f"{what}; write @upgrade(..., from_version={version})")
        for one in range(version, self._version):
            try:
                args = self._steps[one](args)
            except BaseException as error:
                raise ArgsError(self._kind, f"the upgrade from version {one} raised {told(error)}") from error
            if not isinstance(args, dict):
                raise ArgsError(self._kind, f"the upgrade from version {one} returned a {name_of(args)}: expected a dict")
        return args


class OlderCodec(ArgsCodec[Any]):
    """Read args of an older version by the codec of the newest one; nothing is written in it."""

    as_written = False

    def __init__(self, newest: ArgsCodec[Any], upgrades: Upgrades, version: int) -> None:
        super().__init__(newest.kind, newest.type, forbid_unknown_keys=newest.forbid_unknown_keys)
        self._newest = newest
        self._upgrades = upgrades
        self._version = version
        self._told = told if newest.as_written else name_of  # the text of an exception may have a value that is encrypted

    def decode(self, encoded: bytes) -> Any:
        """Read the args of one job, or raise ArgsError that names the step or the field."""
        try:
            upgraded = self._upgraded([encoded])[0]
        except ArgsError:
            raise
        except Exception as error:  # JSON that Postgres takes, and no converter: 1e400, half a surrogate
            raise ArgsError(self.kind, UNREADABLE) from error
        return self._newest.decode(upgraded)

    def decode_whole(self, blob: bytes) -> list[Any] | None:
        """Read one JSON array at once; None if they have to be read one by one."""
        try:
            upgraded = self._upgraded(map(bytes, _read_elements(blob)))
        except Exception:  # noqa: BLE001 - they are read one by one then, and the bad one is told
            return None
        return self._newest.decode_whole(b"[" + b",".join(upgraded) + b"]")

    def _upgraded(self, texts: Iterable[bytes]) -> list[bytes]:
        opened = map(self._newest.opened, texts)
        return [self._in_json(self._upgrades.upgraded(_read(text), self._version, self._told)) for text in opened]

    def _in_json(self, args: dict[str, Any]) -> bytes:
        try:
            return _write(args)
        except Exception as error:
            reason = f"the upgrade from version {self._version} has made what is no JSON: {self._told(error)}"
            raise ArgsError(self.kind, reason) from error


_read_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _place(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
