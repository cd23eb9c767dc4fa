"""The names under which jobs ask for a worker: their kind, and the version of their args where that is above 1: `mail@3`.

Pure functions on plain values: used in the producer's thread of a worker process, in the main thread of `fastq run`, which
announces the names, and in an operator's threads.

A program knows the names of its workers' kinds, of their former names, and of all versions up to its own. So a job with args of a
newer version is one without a worker there, and is left to a program that has one (work/claim/waiting.py); no code on its way
compares versions. A name is also the reason for which such a job waits, in its row; the statements make it of kind and meta, in
the words of job_retry.sql.

Invariant: no kind has an `@` in its name, so a name says which kind and which version it means. It deliberately knows no name but
the kind's for version 1: a kind without versions is one whose jobs all have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from fastq.args.meta import VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

W = TypeVar("W")

SIGN = "@"
"""Stands between the kind and the version; args/options.py lets no kind have it."""


def version_in(meta: Mapping[str, Any]) -> str:
    """Return the version of a job's args as its meta says it, which may be anything; empty if it says none, which is 1."""
    version = meta.get(VERSION.name)
    return "" if version is None else str(version)


def name_of(kind: str, version: str) -> str:
    """Return the name under which a job asks for a worker."""
    return f"{kind}{SIGN}{version}" if version else kind


def names_of(workers: Mapping[str, W]) -> dict[str, W]:
    """Return the workers by each name under which a job may ask for them, of workers by kind."""
    named = dict(workers)
    for kind, worker in workers.items():
        newest = getattr(worker, "kind").version  # noqa: B009 - of a Worker: a room above this one has the class
        if newest > 1:
            named |= {name_of(kind, str(version)): worker for version in range(1, newest + 1)}
    return named


def unpaused(names: Iterable[str], paused: Collection[str]) -> list[str]:
    """Return those of the names whose kind is not paused, in their order."""
    return sorted(name for name in names if name.partition(SIGN)[0] not in paused)


def told(name: str) -> str:
    """Write a name for people."""
    kind, _, version = name.partition(SIGN)
    return f"kind '{kind}' with args of version {version}" if version else f"kind '{kind}'"
