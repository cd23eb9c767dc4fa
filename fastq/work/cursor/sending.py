"""Send the statements of a look, and of a part: the only I/O of the cursor.

Run by the thread that owns the session. A producer sends step by step, since the jobs of a claim must be on the board before the
next claim is sent; programs that measure claims, and tests, send a look as a whole. It deliberately plans nothing, and moves no
mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.work.cursor.looks import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.postgres.db import Connection
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.claims import Part
    from fastq.work.cursor.cursor import Cursor
    from fastq.work.cursor.looks import Step


def send(cursor: Cursor, connection: Connection, step: Step, next_claim: Callable[[], int]) -> Any:
    """Send one statement of a look; return its answer, which is for `Look.learn`. A claim is named just before it is sent."""
    if isinstance(step, Claim):
        return cursor.claims.send(connection, next_claim(), step.tried)
    return connection.run(step.statement, *step.params)


def send_look(cursor: Cursor, connection: Connection, next_claim: Callable[[], int], limit: int) -> list[Claimed]:
    """Look for up to so many jobs; return the answers of the claims."""
    look, claimed = cursor.look(limit), []
    while (step := look.next_step()) is not None:
        answer = send(cursor, connection, step, next_claim)
        look.learn(step, answer)
        if isinstance(step, Claim):
            claimed.append(answer)
    return claimed


def send_part(cursor: Cursor, connection: Connection, claim: int, part: Part) -> Claimed:
    """Claim a part, without the turn."""
    claimed = cursor.claims.send_part(connection, claim, part)
    cursor.learn_part(part, claimed)
    return claimed
