"""One job or many as a statement with its parameters, ready for any driver that carries it to Postgres.

Runs in the enqueuing thread or event loop, on plain values; the clients' sessions send the calls. The functions are pure, and a
call belongs to the client's method that has it made.

Invariant: everything is checked and written as JSON before the first statement, so that a job that is refused leaves nothing
behind.

It deliberately compares no time with the local clock: whether a job is due is the database's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fastq.args.hook import Hook
from fastq.args.kinds import Kind, kind_of
from fastq.args.queues import QUEUES
from fastq.enqueue.items import Enqueue, encoded, several
from fastq.errors import OptionError
from fastq.hooks.asking import asked
from fastq.jobs.spec import UNIT, JobSpec, Options, carrying, check_names, gated, keyed, spec_of, unique_of
from fastq.postgres import hints
from fastq.texts import in_ascii

RECORD = "\x1e"
"""The character that joins jobs in a statement's parameters; no kind, queue, tag or JSON text has it."""

ARGS, TAGS = 4, 5
"""Where these stand among the values of a Call, of one job or of many."""

COLUMNS = 8
"""How many fields of a spec go into a row."""

UTF8 = "UTF8"
"""The encoding in which every character arrives as it is, by its name in Postgres."""

_ONE_BYTE = ("SQLASCII", "LATIN", "ISO8859", "WIN", "KOI8")
"""The encodings, by the beginnings of their names, in which Python and Postgres agree; drivers refuse other characters."""

Row = tuple[JobSpec, bytes]
"""A job: its spec, and the JSON of its args."""


class Call(NamedTuple):
    """A statement of fastq/sql with its parameters, ready for any driver."""

    statement: str
    values: tuple[object, ...]
    wakes: set[str]
    rows: Sequence[Row] = ()  # the jobs of a call of which some are unique
    result: Any = None  # of one job: the type of its results that its kind declares

    @property
    def is_ascii(self) -> bool:
        """Tell whether it reads the same in every encoding that a connection may have."""
        return all(not isinstance(value, str) or value.isascii() for value in self.values[ARGS : TAGS + 1])

    def in_encoding(self, encoding: str) -> Call:
        """Return the call as a connection of this encoding can carry it; raise OptionError if it cannot carry the tags.

        Drivers write text in the connection's encoding by Python's codecs, and the server reads it by tables of its own. In the
        encodings of East Asia the two differ: a yen sign arrives as a backslash, and the JSON says something else. ASCII is the
        same in all.
        """
        name = re.sub(r"[^A-Z0-9]", "", encoding.upper())
        if name == UTF8:
            return self
        tag = self._odd_tag()
        if tag is not None and not name.startswith(_ONE_BYTE):
            raise OptionError(
                f"tag {tag!r}: expected ASCII, since your connection's client_encoding is {encoding}, in which other characters "
                f"may arrive as something else; set it to {UTF8}"
            )
        return self._in_ascii()

    def _in_ascii(self) -> Call:
        """Return the call with its JSON in ASCII: other characters become escapes, which the worker reads as the same text."""
        values = [*self.values]
        values[ARGS] = in_ascii(str(values[ARGS]))
        return self._replace(values=tuple(values))

    def _odd_tag(self) -> str | None:
        """Return the first tag that is not in ASCII."""
        tags = re.split(f"[{RECORD}{UNIT}]", str(self.values[TAGS] or ""))
        return next((tag for tag in tags if not tag.isascii()), None)


def one(args: Any, kind: Kind[Any] | None, options: Options, max_bytes: int, hooks: Sequence[Hook] = ()) -> Call:
    """Prepare one job; raise ArgsError, OptionError or UnknownKind if it is refused."""
    if isinstance(args, Enqueue):
        raise OptionError("expected args, got an Enqueue, which is for enqueue_many: write enqueue(args, priority=...)")
    of = kind_of(args, kind)
    check_names(options)
    carried = None
    if of.asked or hooks:
        options, carried = asked(hooks, of, args, options)
    spec, unique = carrying(spec_of(of, options), carried), unique_of(of, options)
    text = of.codec.encode(args, max_bytes)
    if of.gates or spec.queue in QUEUES:
        spec = gated(spec, of.gates_of(args, spec.queue))
    if unique is not None:
        call = _unique([(keyed(spec, of.key_of(unique, args, text, spec.queue)), text)])
    elif spec.gates is not None:
        call = call_of("job_enqueue_gated", [(spec, text)])
    else:
        wakes = {spec.queue} if spec.delay is None and spec.at is None else wakes_of(spec)
        call = Call("job_enqueue", (*spec[:4], text.decode(), *spec[4:COLUMNS]), wakes)
    return call if of.result is None else call._replace(result=of.result)


def many(
    items: Iterable[Any], kind: Kind[Any] | None, options: Options, max_bytes: int, hooks: Sequence[Hook] = ()
) -> Call | None:
    """Prepare many jobs for one statement, None if there are none; one that is refused refuses them all."""
    check_names(options)
    rows = list(encoded(several(items), kind, options, max_bytes, hooks))
    if not rows:
        return None
    if any(spec.asked is not None for spec, _ in rows):
        return _unique(rows)
    statement = "job_enqueue_gated" if any(spec.gates is not None for spec, _ in rows) else "job_enqueue_many"
    return call_of(statement, rows)


def _unique(rows: list[Row]) -> Call:
    """Make the call of jobs of which some are unique: which statements it takes is found out on the way (uniques.py)."""
    return Call("job_enqueue_unique", (), set(), rows)


def call_of(statement: str, rows: Sequence[Row], *more: object) -> Call:
    """Make the call of a statement that takes several jobs, and perhaps more lists."""
    specs = [spec for spec, _ in rows]
    kinds, queues, priorities, max_attempts, tags, delays, times, metas, *_ = zip(*specs, strict=True)
    values = (
        RECORD.join(kinds),
        RECORD.join(queues),
        RECORD.join(map(str, priorities)),
        RECORD.join(map(str, max_attempts)),
        b"\x1e".join([text for _, text in rows]).decode(),
        RECORD.join([text or "" for text in tags]),
        RECORD.join(["" if delay is None else repr(delay) for delay in delays]),
        RECORD.join(["" if at is None else at.isoformat() for at in times]),
        RECORD.join([text or "" for text in metas]) if any(metas) else None,
    )
    return Call(statement, (*values, *more), set().union(*map(wakes_of, set(specs))))


def wakes_of(spec: JobSpec) -> set[str]:
    """Return the hints to send: a given time may have passed already, so it wakes the queue and the promotion."""
    scheduled = {hints.DUE.word} if spec.delay is not None or spec.at is not None else set()
    now = hints.GATE.word if spec.gates is not None else spec.queue
    return scheduled if spec.delay is not None else scheduled | {now}
