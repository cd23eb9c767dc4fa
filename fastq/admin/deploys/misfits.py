"""Find the living jobs that an application could not run, before it is deployed: unknown kinds, and args that do not decode.

So are args of a version that is newer than the code, and older ones that its functions do not upgrade.

Runs in the caller's thread: the main thread of `fastq check`, or a thread of a program of yours, over a connection of the
caller's (admin/session.py). It reads the jobs by their ids, a window at a time, and reads their args with the codecs that the
worker processes will use. The functions keep nothing; the caller gets the findings.

Invariant: it changes nothing and runs no `work`. Code of the user's runs only where a type of args has a conversion of its own.
It deliberately says nothing of jobs that are enqueued while it reads, nor of finished jobs that somebody may run once more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastq.args.versions.names import name_of
from fastq.errors import ArgsError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastq.args.kinds import Kind
    from fastq.args.text import ArgsCodec
    from fastq.postgres.db import Connection

WINDOW = 500
"""Jobs read by a statement. With args of 250 kB, which is as large as a client takes them, a window is 125 MB: a guess."""

MOST = 1_000_000
"""Jobs looked at unless the caller says otherwise: some ten seconds of reading and decoding small args."""


@dataclass(slots=True)
class Misfit:
    """A kind with jobs that the application could not run."""

    kind: str  # with the version of the args, where the jobs have one: mail@3
    jobs: int = 0  # of the kind, of those that were looked at
    misfits: int = 0  # of these, such as could not be run
    sample: int = 0  # the id of the first of them
    reason: str = ""  # why that one could not be run


@dataclass(slots=True)
class Checked:
    """The findings; `whole` says whether all living jobs were looked at."""

    looked_at: int = 0
    whole: bool = False
    misfits: list[Misfit] = field(default_factory=list)


def check_jobs(connection: Connection, kinds: Mapping[str, Kind[Any]], most: int = MOST) -> Checked:
    """Look at the oldest living jobs, `most` of them, and return the kinds with jobs that these kinds' workers could not run.

    `kinds` are by name: a kind has that of its own, and its former ones.
    """
    if most < 1:
        raise OptionError(f"most: expected a number of jobs from 1 on, got {most}")
    found: defaultdict[str, Misfit] = defaultdict(lambda: Misfit(""))
    checked, after = Checked(), 0
    while not checked.whole and checked.looked_at < most:
        wanted = min(WINDOW, most - checked.looked_at)
        rows = connection.run("job_check", after, wanted)
        checked.looked_at += len(rows)
        checked.whole = len(rows) < wanted
        after = rows[-1][0] if rows else after
        for (kind, version), jobs in _by_kind(rows).items():
            misfit = found[name_of(kind, version)]
            misfit.kind = name_of(kind, version)
            _note(misfit, kinds.get(kind), version, jobs)
    checked.misfits = sorted((misfit for misfit in found.values() if misfit.misfits), key=lambda misfit: misfit.kind)
    return checked


def _by_kind(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, str], list[tuple[int, bytes]]]:
    jobs: defaultdict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
    for job, kind, args, version in rows:
        jobs[kind, version or ""].append((job, args.encode()))
    return jobs


def _note(misfit: Misfit, known: Kind[Any] | None, version: str, jobs: list[tuple[int, bytes]]) -> None:
    """Count jobs of a kind, and those of them that could not be run."""
    misfit.jobs += len(jobs)
    if known is None:
        bad = [(job, "no worker has this kind") for job, _ in jobs]
    elif not known.reads(version):
        bad = [(job, f"its args have version {version}, and this code knows versions up to {known.version}") for job, _ in jobs]
    else:
        codec = known.reading(version)
        if codec.decode_whole(b"[" + b",".join([args for _, args in jobs]) + b"]") is not None:
            return
        bad = [(job, reason) for job, args in jobs if (reason := _fault(codec, args))]
    if bad and not misfit.misfits:
        misfit.sample, misfit.reason = bad[0]
    misfit.misfits += len(bad)


def _fault(codec: ArgsCodec[Any], args: bytes) -> str:
    """Say why args do not decode; empty if they do."""
    try:
        codec.decode(args)
    except ArgsError as error:
        return f"field '{error.field}': {error.reason}" if error.field else error.reason
    return ""
