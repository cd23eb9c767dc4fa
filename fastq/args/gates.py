"""Gates, as a kind declares them: `Limit`, `Ordered`, `Fair`, where a job waits until there is room for it, or until its turn.

    class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=20, by="account_id")])

Declared and checked (`check_gates`) by the thread that imports the application, and never changed. Read in the enqueuing thread,
and in the producer's for a job that was enqueued without going through its gates. The functions keep nothing. An enqueued job
carries its gates in its meta, each as an `Entry`: [sort, name, key, weight, at_most], and behind these the values that only this
sort has, if any. The gatekeeper (lead/gate/) reads them there and knows no declaration: so the program that enqueues and the one
that leads may be of different versions, and a gate that is taken out of the code holds no job for ever.

Invariant: jobs with the same gates and keys have the same text there. It deliberately decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from fastq.args.keyed import By, check_by, check_fields, key_of, names_of, types_at
from fastq.args.meta import Key
from fastq.errors import ArgsError, OptionError

GATES = Key("gates", str)
"""The gates that the job goes through, in the order of their declaration: a text of JSON, so that equal ones are equal byte by
byte."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/\-]{0,126}")
MOST = 2_147_483_647
"""The largest number that a gate can have: that of an integer in Postgres."""

Weight = int | str | Callable[[Any], object]
"""How much of a gate's room one job takes: a number, the name of a field that holds one, or a function of the args."""

HOLDS = "order-hold"
"""The sort of a gate in order at which a discarded job holds its key. Statements know it by the first gate of a job, and those of
both sorts in order by the letters that they have in common."""

WINDOW = 1_000
"""Jobs that a fair gate lets go and that have not ended. A guess: with fewer the workers wait for the gatekeeper
when jobs take no time; more make a tenant that comes late wait longer."""


class Entry(msgspec.Struct, array_like=True):
    """A gate as a job carries it."""

    sort: str
    name: str
    key: msgspec.Raw  # JSON
    weight: int
    at_most: int
    more: list[Any] = []  # values of this sort of gate alone


read_entries = msgspec.json.Decoder(list[Entry]).decode
"""Read the gates of a job from their text; msgspec.MsgspecError if that is none."""


class Gate:
    """A name under which jobs wait for room; kinds that name the same gate share it. Derived classes say how much there is."""

    sort: str

    def __init__(self, name: str, at_most: int, by: By, weight: Weight) -> None:
        told = f"{type(self).__name__}({name!r})"
        if not NAME.fullmatch(name if type(name) is str else ""):
            raise OptionError(f"{told}: expected a name like 'mail-api', of letters, digits and '_.:/-'")
        if not _counts(at_most):
            raise OptionError(f"{told}: at_most={at_most!r}: expected a whole number from 1 on")
        self.name = name
        self.at_most = at_most
        self.by = check_by(by, told)
        self.weight = _check_number("weight", weight, told)

    def check(self, type_: Any, kind: str) -> None:
        """Raise OptionError if the args of the kind have not the fields that the gate names."""
        check_fields(self.by, type_, self._told(kind))
        _check_field("weight", self.weight, type_, self._told(kind))

    def entry(self, args: Any, kind: str) -> list[Any]:
        """Return the entry of this gate in the meta of a job."""
        more = self.more(args, kind)
        own = [more] if more else []
        return [
            self.sort,
            self.name,
            key_of(self.by, args, kind),
            self._number("weight", self.weight, args, kind),
            self.at_most,
            *own,
        ]

    def more(self, args: Any, kind: str) -> list[Any]:  # noqa: ARG002 - for derived classes
        """Return the values that only this sort of gate has; none where all are as usual, so that the text stays short."""
        return []

    def _told(self, kind: str) -> str:
        return f"kind '{kind}': {type(self).__name__}({self.name!r})"

    def _number(self, word: str, number: Weight, args: Any, kind: str) -> int:
        """Return a number of this gate, which may stand in a field of the args, or be made of them."""
        if isinstance(number, int):
            return number
        value = msgspec.json.decode(key_of(number, args, kind))
        if not _counts(value):
            reason = f"expected a whole number from 1 on as the {word} at the gate '{self.name}', got {value!r}"
            raise ArgsError(kind, reason, field=number if isinstance(number, str) else "")
        return int(value)

    def __eq__(self, other: object) -> bool:
        """Compare name, number, key and weight."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Go with `==`."""
        return hash((self.sort, self.name, self.at_most))


class Limit(Gate):
    """At most so many jobs at once: `Limit("mail-api", at_most=20)` in all, with `by="account_id"` of each account.

    A job counts from when it is let go until its attempt has ended; one that waits for its next attempt does not count. `weight`
    is how much one job counts. An operator may set another `at_most` (`fastq gates set`), which prevails over the code's.
    """

    sort = "limit"

    def __init__(self, name: str, at_most: int, *, by: By = None, weight: Weight = 1) -> None:
        super().__init__(name, at_most, by, weight)

    def __repr__(self) -> str:
        """Write it as one would make it."""
        by = f", by={self.by!r}" if self.by is not None else ""
        weight = f", weight={self.weight!r}" if self.weight != 1 else ""
        return f"Limit({self.name!r}, at_most={self.at_most}{by}{weight})"


class Ordered(Gate):
    """One job after the other, in the order of their ids: `Ordered("stream", by="stream_id")`, the single writer of a stream.

    The next job of a key starts when the one before has ended for good: a job that waits for its next attempt, or was snoozed,
    holds up those behind it. Jobs of two transactions that run at the same time have no order until both have committed.
    All jobs of the kind have its priority, since another one would pass those before.

    A job that is discarded lets the next one go; with `when_discarded="hold"` it holds its key, and nothing behind it starts
    until an operator retries it, deletes it, or releases the key (`fastq gates held`).
    """

    sort = "order"

    def __init__(self, name: str, *, by: By = None, when_discarded: Literal["continue", "hold"] = "continue") -> None:
        super().__init__(name, 1, by, 1)
        if when_discarded not in ("continue", "hold"):
            raise OptionError(f"Ordered({name!r}): when_discarded={when_discarded!r}: expected 'continue' or 'hold'")
        self.holds = when_discarded == "hold"
        if self.holds:
            self.sort = HOLDS

    def __repr__(self) -> str:
        """Write it as one would make it."""
        by = f", by={self.by!r}" if self.by is not None else ""
        holds = ", when_discarded='hold'" if self.holds else ""
        return f"Ordered({self.name!r}{by}{holds})"


class Fair(Gate):
    """Rounds over tenants: `Fair("reports", by="tenant")`, where each tenant that has jobs waiting has one let go in each round.

    `window` jobs at most are let go and have not ended, of all tenants together; the others wait at the gate for their turn. So a
    tenant that comes late waits for that window and for the round, however many jobs of another tenant wait. `share` is how
    many jobs of its tenant a round has, and `weight` how many others a job stands for. An operator may set another window
    (`fastq gates set`), which prevails over the code's.
    """

    sort = "fair"

    def __init__(self, name: str, *, by: By, window: int = WINDOW, share: Weight = 1, weight: Weight = 1) -> None:
        told = f"Fair({name!r})"
        if by is None:
            raise OptionError(f"{told}: expected by=, the field that says whose turn it is, such as by='tenant'")
        if not _counts(window):
            raise OptionError(f"{told}: window={window!r}: expected a whole number from 1 on")
        super().__init__(name, window, by, weight)
        self.share = _check_number("share", share, told)

    def check(self, type_: Any, kind: str) -> None:
        """Raise OptionError if the args of the kind have not the fields that the gate names."""
        super().check(type_, kind)
        _check_field("share", self.share, type_, self._told(kind))

    def more(self, args: Any, kind: str) -> list[Any]:
        """Return the tenant's share, if it is not 1."""
        share = self._number("share", self.share, args, kind)
        return [share] if share != 1 else []

    def __repr__(self) -> str:
        """Write it as one would make it."""
        share = f", share={self.share!r}" if self.share != 1 else ""
        weight = f", weight={self.weight!r}" if self.weight != 1 else ""
        return f"Fair({self.name!r}, by={self.by!r}, window={self.at_most}{share}{weight})"


def _check_number(word: str, number: Weight, told: str) -> Weight:
    """Return a number that may be the name of a field or a function, or raise OptionError with the rule."""
    if isinstance(number, str):
        check_by(number, told)
    elif not callable(number) and not _counts(number):
        raise OptionError(
            f"{told}: {word}={number!r}: expected a whole number from 1 on, the name of a field that holds one, or a function"
        )
    return number


def _check_field(word: str, number: Weight, type_: Any, told: str) -> None:
    """Raise OptionError if a number is the name of a field that the args have not, or that is never a whole number."""
    types = types_at(number, type_, f"{told}: {word}={number!r}") if isinstance(number, str) else None
    if types is not None and not any(map(_may_count, types)):
        raise OptionError(f"{told}: {word}={number!r}: expected a field that is an int, got {names_of(types)}")


def _may_count(type_: msgspec.inspect.Type) -> bool:
    """Tell whether a value of this type may be a whole number in JSON."""
    if isinstance(type_, msgspec.inspect.EnumType):
        return any(isinstance(member.value, int) for member in type_.cls)
    if isinstance(type_, msgspec.inspect.LiteralType):
        return any(isinstance(value, int) for value in type_.values)
    return isinstance(type_, msgspec.inspect.IntType)


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST


FIRST = (HOLDS, Ordered.sort, Fair.sort)
"""The sorts that stand first among the gates of a job."""


def check_gates(gates: object) -> tuple[Gate, ...]:
    """Return the gates of a kind as a tuple, or raise OptionError with the rule."""
    if not isinstance(gates, list | tuple) or not all(isinstance(gate, Gate) for gate in gates):
        raise OptionError(f"gates {gates!r}: expected a list of gates, such as gates=[Limit('mail-api', at_most=20)]")
    names = [gate.name for gate in gates]
    if len(names) > len({*names}):
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"gates: '{twice}' stands there twice; a job goes through a gate once")
    # A job that is in order keeps its room while it waits for its next attempt: statements know it by the first of its gates.
    # At a fair gate a job waits for its turn before it waits for room elsewhere.
    return tuple(sorted(gates, key=lambda gate: FIRST.index(gate.sort) if gate.sort in FIRST else len(FIRST)))


def entries(gates: tuple[Gate, ...], args: Any, kind: str) -> str:
    """Return the entries of a job's gates, as JSON."""
    return msgspec.json.encode([gate.entry(args, kind) for gate in gates]).decode()
