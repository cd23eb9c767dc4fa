"""Settings: the keys of encrypted args.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read. They are
no flags, since everybody on a host can read a command line, and no message has a part of them.
"""

from dataclasses import dataclass

from fastq.args.secret.ring import KEY_BYTES, RULE, keys_in, secret_in
from fastq.settings.declaring import Reader, setting


def _keys() -> Reader[str]:
    """Read a ring of keys, and keep the text."""
    return lambda text: (keys_in(text), text)[1], RULE


def _secret() -> Reader[str]:
    """Read one key, and keep the text."""
    return lambda text: (secret_in(text), text)[1], f"the base64 of {KEY_BYTES} bytes or more"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SecretSettings:
    """A group of the settings of `Config`."""

    args_keys: str = setting(
        "",
        _keys(),
        "the keys of encrypted args",
        "there is none that a program could make up: others could not read it",
        secret=True,
    )
    args_unique_key: str = setting(
        "",
        _secret(),
        "the key for the digests of unique jobs with encrypted args; it never changes",
        "with a new one, jobs that wait would not count as the same",
        secret=True,
    )
