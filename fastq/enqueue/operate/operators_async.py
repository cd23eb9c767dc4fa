"""Look at pauses, gates, keys that stand still and unique keys, and change them: methods of a client in an event loop.

A base class of `AsyncClient` (client_async.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's event loop, but for the examination of `doctor`, which runs in a thread
beside it.

`Operators` (operators.py) is the same part of `Client`, and is made from this file.

The statements, their checks and their events are those of the commands (fastq/admin).

With `conn` each method is part of the caller's transaction: it sees that transaction's own changes, and a change of it holds from
the commit on. It deliberately has no connection of its own, and decides nothing; `doctor` alone opens some, since it tries how
sessions come about.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar, Unpack

from fastq.admin import gates, held, pauses, unique
from fastq.admin.gates import GateRow
from fastq.admin.held import HeldRow
from fastq.admin.pauses import PauseRow, Target
from fastq.admin.sealed import rotation
from fastq.admin.sealed.rows import Rotated
from fastq.admin.unique import KeyRow
from fastq.postgres.pool import in_loop

if TYPE_CHECKING:
    from fastq.adapters.conn import AsyncConn
    from fastq.admin.doctor.examine import Examination
    from fastq.admin.session import Asking
    from fastq.enqueue.settings import Settings

T = TypeVar("T")


class AsyncOperators:
    """The part of a client that does the work of an operator."""

    _settings: Settings

    async def pause(
        self,
        *,
        until: datetime | timedelta | float | None = None,
        reason: str = "",
        conn: AsyncConn | None = None,
        **target: Unpack[Target],
    ) -> None:
        """Pause one of `queue=`, `kind=`, `gate=` (`key=`: this key of it alone) or `everything=True`; jobs that run go on.

        `until`: a time with a zone, a timedelta, or seconds from now; the cluster's leader ends the pause then. The reason is
        shown wherever somebody asks why a job waits. Where there is such a pause already, it gets this end and reason. With
        `conn` it holds from the commit of that transaction on.
        """
        await self._asked(pauses.pausing(target, until, reason), conn)

    async def resume(self, *, conn: AsyncConn | None = None, **target: Unpack[Target]) -> bool:
        """End such a pause; False if there was none."""
        return await self._asked(pauses.resuming(target), conn)

    async def pauses(self, *, conn: AsyncConn | None = None) -> list[PauseRow]:
        """Return all pauses, with their ends and reasons."""
        return await self._asked(pauses.all_pauses(), conn)

    async def gates(self, *, conn: AsyncConn | None = None) -> list[GateRow]:
        """Return the gates by name, with their numbers and the counts of their jobs.

        These are the gates that living jobs go through, and those with a number that an operator has set. Counts are for people:
        they stop after some ten thousand jobs, and `more` says so.
        """
        return await self._asked(gates.all_gates(), conn)

    async def set_gate(
        self,
        name: str,
        number: int,
        *,
        per: float | None = None,
        burst: int | None = None,
        conn: AsyncConn | None = None,
    ) -> int | None:
        """Set the number of a gate, which prevails over the code's until it is removed; 0 closes the gate.

        At a rate `per` (seconds) and `burst` may be set with it; without them those of the code hold. Return the number that was
        set before, or None.
        """
        return await self._asked(gates.setting(name, number, per, burst), conn)

    async def remove_gate(self, name: str, *, conn: AsyncConn | None = None) -> int | None:
        """Let the code's numbers of a gate hold again; return the number that was set, or None if none was."""
        return await self._asked(gates.removing(name), conn)

    async def held_keys(self, *, conn: AsyncConn | None = None) -> list[HeldRow]:
        """Return the keys of gates in order that stand still, each with the job that does not run.

        First come the keys that discarded jobs hold (`state` is discarded), which an operator has to retry, delete or release.
        Then come those whose job waits for its next attempt, due at `until`, while others wait behind it.
        """
        return await self._asked(held.all_held(), conn)

    async def release_key(self, gate: str, key: object = "", *, conn: AsyncConn | None = None) -> list[int]:
        """Go on without the discarded job that holds a key; return its id, in a list, or an empty list if none holds it.

        `key` is a value of the field that the gate's `by` names (a list of values where it names several); without `by` there is
        none. The job stays discarded.
        """
        return await self._asked(held.releasing(gate, key), conn)

    async def unique_keys(self, *, limit: int = 50, conn: AsyncConn | None = None) -> list[KeyRow]:
        """Return the keys that unique jobs hold, longest held first."""
        return await self._asked(unique.all_keys(limit), conn)

    async def release_unique(self, key: str, *, conn: AsyncConn | None = None) -> KeyRow | None:
        """Give up a unique key, by its first digits: the next enqueue with it makes a job, whatever becomes of the other.

        The digits are those of `unique_keys` and of `client.get(id).unique`. Return the key with the job that held it; None if
        no such key is held.
        """
        return await self._asked(unique.giving_up(key), conn)

    async def rotate_keys(self, kind: str, *, archive: bool = False, conn: AsyncConn | None = None) -> Rotated:
        """Encrypt the args of a kind's living jobs anew, with the newest key, where another one has encrypted them.

        With `archive` those of finished jobs, too. Jobs that run are left alone, and counted: once `left` and `unreadable` are 0,
        none of the jobs that were looked at needs an older key. `remaining` counts the others by key.
        """
        return await self._asked(rotation.rotating(kind, archive=archive), conn)

    async def doctor(self, *only: str) -> Examination:
        """Examine the database and this environment as `fastq doctor` does: ask all checks, or those of these names.

        It changes nothing, has connections of its own, and takes a second or two. The result has the worst `level` (ok, note,
        warn, bad) and the `findings`, each with its `check`, `level`, `found`, `means` and `remedy`.
        """
        from fastq.admin.doctor.examine import examine  # noqa: PLC0415 - few programs ask

        return await in_loop.aside(examine, self._settings.config, self._settings.url, only)

    async def _asked(self, asking: Asking[T], conn: AsyncConn | None) -> T:
        """Run statements that follow one another."""
        raise NotImplementedError
