"""Say where a supervisor that starts shares a queue with living processes that have workers for other kinds.

Each job that comes to a process without a worker for it is put to waiting, and claimed from there by one that has (waiting.py).
That costs two writes and a few milliseconds, which queues of their own would save. It warns and refuses nothing: while a new
version with a new kind is rolled out, old and new processes share their queues as well. Runs in the main thread of `fastq run`,
and keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fastq.postgres.db import Connection

NAMED = 5
"""Kinds, and hosts, that a warning names: as many as fit in a line."""


def warnings(connection: Connection, queues: Iterable[str], kinds: Collection[str]) -> list[str]:
    """Return a warning for each queue that is shared so."""
    if not kinds:
        return []  # an app of singletons alone claims nothing
    ours = set(kinds)
    shared: dict[str, list[tuple[str, set[str]]]] = {}
    for queue, host, known in connection.run("process_neighbours", list(queues)):
        if set(known) != ours:
            shared.setdefault(queue, []).append((host, set(known)))
    return [_warning(queue, others, ours) for queue, others in shared.items()]


def _warning(queue: str, others: Sequence[tuple[str, set[str]]], ours: set[str]) -> str:
    hosts = {host for host, _ in others}
    theirs = set().union(*(known for _, known in others)) - ours
    missed = set().union(*(ours - known for _, known in others))
    told = [f"only they have workers for {_names(theirs)}"] if theirs else []
    told += [f"not all of them have workers for {_names(missed)}"] if missed else []
    return (
        f"queue '{queue}' is shared with processes of other kinds on {_names(hosts)}: {'; '.join(told)}; each job that comes to "
        "the wrong process waits for a right one: give each service a queue of its own (while a new version is rolled out, this "
        "passes)"
    )


def _names(names: Iterable[str]) -> str:
    first = sorted(names)
    more = f" and {len(first) - NAMED} more" if len(first) > NAMED else ""
    return ", ".join(first[:NAMED]) + more
