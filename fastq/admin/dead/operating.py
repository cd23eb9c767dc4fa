"""Look at discarded jobs, replay and delete them over a connection of the caller's, for an operator.

The functions run in the thread that calls them: the main thread of `fastq dead`, or a thread of a program that uses
`fastq.admin`. They keep nothing; the connection is the caller's (admin/session.py). The work is that of letters.py.

It deliberately opens no transaction: each statement is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from fastq.admin.dead.letters import DeadLetters
from fastq.postgres import hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.admin.dead.groups import DeadList, Replayed, Which
    from fastq.postgres.db import Connection


GLANCE, GLANCE_PAGE = 0.04, 500
"""Seconds after which a list looks no further that is to come at once, and discarded jobs that a statement reads for it: the page
that shows it comes in a tenth of a second."""


class _OnConnection(DeadLetters):
    """The same work as a client's, over one connection."""

    def __init__(self, connection: Connection, *, glance: bool = False) -> None:
        self._connection = connection
        if glance:
            self._patience, self._at_once = GLANCE, GLANCE_PAGE

    def _ask(self, name: str, parameters: tuple[object, ...]) -> Sequence[Sequence[Any]]:
        return self._connection.run(name, *parameters)

    def _ask_hinting(self, name: str, parameters: tuple[object, ...]) -> Sequence[Sequence[Any]]:
        return hints.sending(self._connection, lambda channel: self._connection.run(name, *parameters, channel))


def list_dead(
    connection: Connection, group: str | None = None, *, limit: int = 50, glance: bool = False, **which: Unpack[Which]
) -> DeadList:
    """Group discarded jobs, as `client.dead` does; with `glance` the newest, as many as 40 ms allow."""
    return _OnConnection(connection, glance=glance).dead(group, limit=limit, **which)


def replay_dead(
    connection: Connection,
    group: str | None = None,
    *,
    rate: float | None = None,
    limit: int | None = None,
    again: bool = False,
    dry_run: bool = False,
    **which: Unpack[Which],
) -> Replayed:
    """Replay discarded jobs, as `client.replay` does."""
    return _OnConnection(connection).replay(group, rate=rate, limit=limit, again=again, dry_run=dry_run, **which)


def delete_dead(
    connection: Connection, group: str | None = None, *, limit: int | None = None, dry_run: bool = False, **which: Unpack[Which]
) -> int:
    """Delete discarded jobs, as `client.delete_dead` does."""
    return _OnConnection(connection).delete_dead(group, limit=limit, dry_run=dry_run, **which)
