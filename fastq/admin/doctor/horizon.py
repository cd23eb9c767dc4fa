"""The check of old snapshots: who keeps the dead rows of every table alive, for how long, and what that costs.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Pure judgement over some rows. A dead row is removed only when no snapshot is older than its death. A session
in a transaction has such a snapshot, and so have a prepared transaction, a replication slot and a standby that tells its own
(`hot_standby_feedback`).

It deliberately shows no statement of a session: there may be args in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.doctor.checks import BAD, LISTED, NOTE, OK, WARN, Check, Found, Patient, lasted

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD, TOO_OLD = 300.0, 3_600.0
"""Seconds: a report may take minutes. In an hour a queue of 1,000 jobs a second leaves some ten million dead rows."""

MANY, TOO_MANY = 1_000_000, 100_000_000
"""Transactions since: a busy queue makes a million in some minutes; at 200 million Postgres vacuums whatever else it does."""


class Holder(NamedTuple):
    """A row of the statement: something that keeps dead rows."""

    sort: str
    name: str
    role: str | None
    program: str | None
    state: str | None
    seconds: float | None
    transactions: int

    @property
    def level(self) -> str:
        """Judge it."""
        if (self.seconds or 0.0) >= TOO_OLD or self.transactions >= TOO_MANY:
            return BAD
        idle_slot = self.sort == "slot" and self.state == "inactive"  # nobody reads it, so it only ever gets older
        return WARN if (self.seconds or 0.0) >= OLD or self.transactions >= MANY or idle_slot else OK

    @property
    def told(self) -> str:
        """Say what it is."""
        since = "" if self.seconds is None else f" for {lasted(self.seconds)}"
        holding = f"keeps the dead rows of the last {self.transactions:,} transactions"
        return {
            "session": f"session {self.name} ({self.program or 'no name'}, role {self.role or '?'}) is in a transaction{since}",
            "prepared": f"the prepared transaction '{self.name}' of role {self.role} waits{since}",
            "slot": f"the {self.state} replication slot '{self.name}'",
            "standby": f"the standby {self.name} ({self.program or 'no name'}) with hot_standby_feedback",
        }[self.sort] + (f", and {holding}" if self.sort in ("session", "prepared") else f" {holding}")

    @property
    def remedy(self) -> str:
        """Return the line that ends it."""
        name = self.name.replace("'", "''")
        return {
            "session": f"select pg_terminate_backend({name});",
            "prepared": f"rollback prepared '{name}';  -- or commit prepared, as its program would have",
            "slot": f"select pg_drop_replication_slot('{name}');  -- if nobody is to read it any more",
            "standby": "on the standby: alter system set hot_standby_feedback = off; select pg_reload_conf();",
        }[self.sort]


def _horizon(patient: Patient) -> Iterator[Found]:
    holders = [Holder(*row) for row in patient.ask("doctor_horizon", LISTED)]
    held = [holder for holder in holders if holder.level != OK]
    for holder in held:
        means = "vacuum removes nothing that is younger: every table of the database grows, and looks walk over dead rows"
        yield Found(holder.level, holder.told, means, holder.remedy, f"{holder.sort} {holder.name}")
    if not held:
        yield Found(OK, "no transaction, slot or standby keeps dead rows for long")
    [(sees,)] = patient.connection.ask("select pg_has_role('pg_read_all_stats', 'usage')")
    if not sees:
        role = patient.connection.raw.info.user
        means = "the ages of transactions of other roles are counted in transactions alone"
        yield Found(
            NOTE,
            f"the role '{role}' does not see since when others are in a transaction",
            means,
            f'grant pg_read_all_stats to "{role}";',
        )


CHECKS = (Check("horizon", "does anything keep dead rows alive for long?", _horizon, of_tables=False),)
