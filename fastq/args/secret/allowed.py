"""Say where encrypted args may take part: keys of unique jobs by a digest with a key, keys of gates not at all.

Runs in the thread that imports the application, where kinds and workers are checked, and in the thread that enqueues. Pure
functions on plain values.

Invariant: no field that is encrypted becomes a part of a row in a form that others read. It deliberately lets a function decide
for itself: one that is given as a gate's key or weight returns what may be seen, on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.args.keyed import found
from fastq.args.secret.hidden import has_secrets_in, is_secret_at
from fastq.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.args.gates import Gate
    from fastq.args.unique import Unique


def check_gates(gates: Iterable[Gate], type_: Any, kind: str, *, encrypted: bool) -> None:
    """Raise OptionError if a gate would show what is encrypted; `encrypted` says that all args are."""
    for gate in gates:
        for word, named in (("by", gate.by), ("weight", gate.weight)):
            names = (named,) if isinstance(named, str) else named if isinstance(named, tuple) else ()
            shown = next((name for name in names if encrypted or is_secret_at(name, type_)), None)
            if shown is not None:
                what = f"{word}={shown!r} names a field that is encrypted, and a gate shows its keys to everybody"
                remedy = "name another field, or a function that returns what may be seen"
                raise OptionError(f"kind '{kind}': {type(gate).__name__}({gate.name!r}): {what}; {remedy}")


def check_collecting(unique: Unique, kind: str) -> None:
    """Raise OptionError if jobs would be collected in args that are encrypted as a whole."""
    if unique.then == "collect":
        what = "its args are encrypted, and the database cannot append to a list in them"
        raise OptionError(f"kind '{kind}': unique, then='collect': {what}; encrypt the fields that need it, as Secret")


def is_told_by(unique: Unique, args: Any) -> bool:
    """Tell whether the key of a unique job may be made of fields that are encrypted."""
    if unique.by is None or callable(unique.by):
        return True
    names = (unique.by,) if isinstance(unique.by, str) else unique.by
    return any(has_secrets_in(found(args, name)) for name in names)
