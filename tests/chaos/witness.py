"""Who wrote for which term, by the word of the database: the witness that the fence is held against.

Each supervisor logs in under a role of its own, and a term's sessions are made when it begins. So a write of a chore is stale
if, at its commit (a deferred trigger runs then), its lease is held by another process than the role's, or was acquired after the
session began. The witness needs nothing of the fence: neither its parameters nor its lock. It commits with what it witnesses.

A statement that was under way when its leader released the lease, and that commits before anybody else has it, belongs to the
last term that there was. Behind a pooler a session outlives the terms that use it; there only the holder counts.

The failpoints hold a chore up inside a statement, after its fence was evaluated: each takes an advisory lock that is free
unless the harness has it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import psycopg

LEASES = {"job": "leader:default", "periodic": "leader:default", "periodic_tick": "leader:default", "queue": "schema"}
"""The lease under which each table is written by chores. `process` is left out: its rows are also their supervisors'."""

FAILPOINTS = {
    "promote": ("job", "before update", "old.state in ('scheduled', 'retryable')"),
    "rescue": ("job", "before update or delete", "old.state = 'running'"),
    "periodic": ("periodic_tick", "before insert", "true"),
}
LOCK = 7_001  # the first half of the failpoints' advisory locks; any number

CHORE = "current_setting('application_name') = 'fastq maintainer'"

SETUP = """
create schema witness;
create table witness.supervisor (role name primary key, pid integer not null);
create table witness.written (
    at timestamptz not null default clock_timestamp(), relation text not null, operation text not null,
    role name not null, pid integer, session timestamptz, holder text, term bigint, acquired_at timestamptz
);
create function witness.see() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    insert into witness.written (relation, operation, role, pid, session, holder, term, acquired_at)
    select tg_table_name, tg_op, session_user, (select pid from witness.supervisor where role = session_user),
        (select backend_start from pg_stat_get_activity(pg_backend_pid())), lease.holder, lease.term, lease.acquired_at
    from (values (1)) as one (row) left join fastq.lease on lease.name = tg_argv[0];
    return null;
end $$;
create function witness.wait() returns trigger language plpgsql set search_path = pg_catalog as $$
begin
    perform pg_advisory_xact_lock_shared(%(lock)s, tg_argv[0]::integer);
    return case when tg_op = 'DELETE' then old else new end;
end $$;
""" % {"lock": LOCK}  # noqa: UP031 - the text has braces and percent signs of its own

IS_STALE = """((holder is distinct from '' and split_part(holder, ':', 2) is distinct from pid::text)
    or (session < acquired_at and not %(pooled)s))"""

SUMMARY = f"select count(*), count(*) filter (where {IS_STALE}), count(distinct term) from witness.written"

STALE = f"""select at::text, relation, operation, role, pid, session::text, holder, term, acquired_at::text from witness.written
where {IS_STALE} order by at limit 5"""


class Testimony(NamedTuple):
    """What was seen: writes of chores, those of a term that was over, and the terms that wrote."""

    writes: int
    stale: int
    terms: int
    examples: Sequence[tuple[object, ...]]


def install(url: str, *, failpoints: bool = False) -> None:
    """Begin to watch a migrated database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SETUP)
        for relation, lease in LEASES.items():
            connection.execute(
                f"create constraint trigger witness after insert or update or delete on fastq.{relation} "
                f"deferrable initially deferred for each row when ({CHORE}) execute function witness.see('{lease}')"
            )
        for number, (relation, moment, condition) in enumerate(FAILPOINTS.values() if failpoints else ()):
            connection.execute(
                f"create trigger failpoint_{number} {moment} on fastq.{relation} for each row "
                f"when ({CHORE} and {condition}) execute function witness.wait({number})"
            )


def enlist(url: str, role: str, pid: int) -> None:
    """Note which process logs in under a role, before it can hold a lease."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into witness.supervisor values (%s, %s)", [role, pid])


def hear(url: str, *, pooled: bool = False) -> Testimony:
    """Ask what was seen."""
    with psycopg.connect(url, autocommit=True) as connection:
        summary = connection.execute(SUMMARY, {"pooled": pooled}).fetchone() or (0, 0, 0)
        return Testimony(*summary, connection.execute(STALE, {"pooled": pooled}).fetchall())


class Failpoint:
    """A point inside a chore's statement; nobody passes while this is entered."""

    def __init__(self, url: str, chore: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._number = list(FAILPOINTS).index(chore)

    def __enter__(self) -> Self:
        self._connection.execute("select pg_advisory_lock(%s, %s)", [LOCK, self._number])
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def reached_by(self, role: str) -> bool:
        """Tell whether a session of this role waits there."""
        found = self._connection.execute(
            "select from pg_locks join pg_stat_activity using (pid) "
            "where locktype = 'advisory' and classid = %s and objid = %s and not granted and usename = %s",
            [LOCK, self._number, role],
        )
        return found.fetchone() is not None
