"""The jobs that a test has enqueued, and the question whether one is as expected: with an answer that a person can read.

Pure but for `STATEMENT`, which the callers run on a session of ours or on the test's own connection. A job is read as a worker
would read it: its args are of their class, and encrypted ones are decrypted.

Invariant: nothing is expected by a name that the args have not: a slip of the pen would be an assertion that always holds where
it says "not". It deliberately compares by `==`, so `unittest.mock.ANY` and `pytest.approx` may stand for a value.
"""

from __future__ import annotations

import difflib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.kinds import Args, Kind, kind_of, kind_of_type
from fastq.args.versions.names import version_in
from fastq.errors import ArgsError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

STATEMENT = """\
select id, kind, queue, priority, state::text, attempt, max_attempts, to_json(tags)::text, args::text, meta::text, scheduled_at
from fastq.job
union all
select id, kind, queue, priority, state::text, attempt, max_attempts, to_json(tags)::text, args::text, meta::text, null
from fastq.job_archive
order by id"""

OPTIONS = ("queue", "priority", "max_attempts", "tags", "state", "attempt", "scheduled_at")
"""The columns of a job that may be expected beside its args."""

ENDED = ("completed", "cancelled", "discarded")
"""The states of jobs that have ended: nobody asks for these who asks for none."""

SHOWN = 5
"""Jobs that a message shows at most; the rest is counted."""


@dataclass(frozen=True)
class Seen:
    """A job as a test sees it; `args` are of the class that its kind declares, or a dict where nobody has said which."""

    id: int
    kind: str
    args: Any
    queue: str
    priority: int
    state: str
    attempt: int
    max_attempts: int
    tags: tuple[str, ...]
    scheduled_at: datetime | None


@dataclass(frozen=True)
class Expected:
    """The jobs that a test asks for: of a kind, with these args, fields of args and columns."""

    kind: Kind[Any] | None
    name: str  # of the kind, '' for any
    args: Any
    fields: Mapping[str, Any]
    columns: Mapping[str, Any]

    def __str__(self) -> str:
        """Say it as in `kind 'mail' with to='ada', queue='mail'`."""
        parts = [f"args={self.args!r}"] if self.args is not None else []
        parts += [f"{name}={value!r}" for name, value in {**self.fields, **self.columns}.items()]
        return f"kind '{self.name}'" + (f" with {', '.join(parts)}" if parts else "")

    def misfits(self, job: Seen) -> dict[str, tuple[Any, Any]]:
        """Return what of a job is otherwise, by name: the value that it has, and the one that was expected."""
        found: dict[str, tuple[Any, Any]] = {}
        if self.args is not None and not job.args == self.args:  # noqa: SIM201 - the expected value may be equal to anything
            found["args"] = job.args, self.args
        for name, value in self.fields.items():
            has = _field(job.args, name)
            if not has == value:  # noqa: SIM201 - the same
                found[name] = has, value
        for name, value in self.columns.items():
            has = getattr(job, name)
            if not has == value:  # noqa: SIM201 - the same
                found[name] = has, value
        return found

    def fits(self, job: Seen) -> bool:
        """Tell whether a job is one of these."""
        if job.kind != self.name:
            return False
        return ("state" in self.columns or job.state not in ENDED) and not self.misfits(job)


def expected(what: Any, args: Mapping[str, Any] | None, given: Mapping[str, Any]) -> Expected:
    """Make an expectation of the words of a test.

    `what` is an args class, a Kind, the name of a kind, or args; `given` are columns of a job, and fields of its args.
    """
    of, exactly = _kind_of(what)
    columns = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    if "tags" in columns:
        columns["tags"] = tuple(columns["tags"])
    fields = {name: value for name, value in given.items() if name not in OPTIONS} | dict(args or {})
    if of is not None:
        _check_fields(of, fields)
    return Expected(of, of.name if of is not None else str(what), exactly, fields, columns)


def read(rows: Iterable[Sequence[Any]], kinds: Iterable[Kind[Any]]) -> list[Seen]:
    """Make jobs of the rows of STATEMENT; `kinds` say how the args of their jobs are read."""
    by_name = {name: kind for kind in kinds for name in (kind.name, *kind.aliases)}
    return [_seen(row, by_name.get(str(row[1]))) for row in rows]


def refusal(wanted: Expected, jobs: Sequence[Seen], count: int | None, fitting: int) -> str:
    """Say that there are not as many jobs as expected, and which there are instead, the nearest first."""
    number = {None: "a job", 1: "one job"}.get(count, f"{count} jobs")
    said = f"expected {number} of {wanted}; found {fitting or 'none'}"
    near = sorted(
        (job for job in jobs if job.kind == wanted.name and not wanted.fits(job)), key=lambda job: _distance(wanted, job)
    )
    others = Counter(job.kind for job in jobs if job.kind != wanted.name)
    lines = [said]
    if near:
        lines.append(f"of that kind, the nearest first{_counted(near)}:")
        lines += [_line(wanted, job) for job in near[:SHOWN]]
    if others:
        told = ", ".join(f"{number} of '{kind}'" for kind, number in sorted(others.items()))
        hint = difflib.get_close_matches(wanted.name, list(others), n=1)
        lines.append(f"of other kinds: {told}" + (f" (did you mean '{hint[0]}'?)" if hint and not near else ""))
    if not jobs:
        lines.append("no job is there at all; one that was enqueued with conn= is seen with conn= alone until that has committed")
    return "\n".join(lines)


def presence(wanted: Expected, jobs: Sequence[Seen]) -> str:
    """Say that there are jobs that were not expected."""
    lines = [f"expected no job of {wanted}; found {len(jobs)}:", *(f"  {_told(job)}" for job in jobs[:SHOWN])]
    return "\n".join(lines + ([f"  and {len(jobs) - SHOWN} more"] if len(jobs) > SHOWN else []))


def _kind_of(what: Any) -> tuple[Kind[Any] | None, Any]:
    """Return the kind, and the args where these were given; None for a kind that is known by its name alone."""
    if isinstance(what, str):
        return None, None
    if isinstance(what, Kind):
        return what, None
    if isinstance(what, type):
        return kind_of_type(what), None
    if isinstance(what, Args):
        return kind_of(what), what
    raise OptionError(f"expected an args class, args, a Kind or the name of a kind, got {what!r}")


def _check_fields(kind: Kind[Any], fields: Mapping[str, Any]) -> None:
    known = _names(kind.type)
    for name in fields:
        if known and name not in known:
            near = difflib.get_close_matches(name, [*known, *OPTIONS], n=1)
            hint = f"did you mean {near[0]}?" if near else f"they have {', '.join(known)}"
            raise OptionError(f"{name}: the args of kind '{kind.name}' have no such field; {hint}")


def _names(cls: Any) -> list[str]:
    """Return the names of the fields of an args class; none where it does not tell."""
    for attribute in ("__dataclass_fields__", "__struct_fields__", "model_fields", "__annotations__"):
        names = getattr(cls, attribute, None)
        if names:
            return list(names)
    return [field.name for field in getattr(cls, "__attrs_attrs__", ())]


def _field(args: Any, name: str) -> Any:
    if isinstance(args, dict):
        return args.get(name, MISSING)
    return getattr(args, name, MISSING)


def _distance(wanted: Expected, job: Seen) -> tuple[int, int]:
    """Count what is otherwise; of two that are equally near the newer one is likelier to be meant."""
    return len(wanted.misfits(job)) + (job.state in ENDED and "state" not in wanted.columns), -job.id


def _line(wanted: Expected, job: Seen) -> str:
    """Show a job, and what of it is otherwise."""
    told = [f"{name}={has!r}, expected {value!r}" for name, (has, value) in wanted.misfits(job).items()]
    if job.state in ENDED and "state" not in wanted.columns:
        told.append(f"it has ended; ask for state={job.state!r}")
    return f"  {_told(job)}\n      " + "\n      ".join(told)


def _told(job: Seen) -> str:
    return f"job {job.id}  {job.state}  queue={job.queue!r}  {job.args!r}"


def _counted(near: Sequence[Seen]) -> str:
    return f" ({SHOWN} of {len(near)})" if len(near) > SHOWN else ""


def _seen(row: Sequence[Any], kind: Kind[Any] | None) -> Seen:
    id_, name, queue, priority, state, attempt, max_attempts, tags, args, meta, scheduled_at = row
    shown = msgspec.json.decode(args)
    if kind is not None:
        version = version_in(msgspec.json.decode(meta)) if meta else ""
        if kind.reads(version):
            with suppress(ArgsError):  # a job that its worker could not read either is shown as it is stored
                shown = kind.reading(version).decode(args.encode())
    kept = tuple(msgspec.json.decode(tags) or ()) if tags else ()
    named = kind.name if kind is not None else name
    return Seen(id_, named, shown, queue, priority, state, attempt, max_attempts, kept, scheduled_at)


class _Missing:
    """The value of a field that stored args have not."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
