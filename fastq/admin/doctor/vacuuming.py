"""Checks of the care that the server takes of fastq's tables: dead rows, grown indexes, settings of autovacuum.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Pure judgement over what the server's statistics say: no row is counted.

It deliberately leaves the archive's partitions out: rows are only added there, and the whole is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.doctor.checks import BAD, NOTE, OK, WARN, Check, Found, Patient, first_of, lasted, sized

if TYPE_CHECKING:
    from collections.abc import Iterator

DEAD = 100_000
"""Dead rows below which none is told of: some ten megabytes of a table, which a look walks over in milliseconds."""

LATE = 10
"""Times the number at which autovacuum should come: by then it has come and could not remove them, or it never came."""

HOLLOW, ROW_BYTES = 256 * 2**20, 20_000
"""Bytes from which on a table counts as hollow where each of its rows has so many: ten times a row with large args."""

WORTHWHILE, BLOATED = 8 * 2**20, 3.0
"""Bytes, and times the size of its entries, from which on an index is too large: those of the leaders' chore `reindex`."""

ENTRY, WIDE_ENTRY = 64, 400
"""Bytes of an index's entry, rounded up: those that the chore goes by have 24 to 48; `job_waiting` has the text of gates."""

WIDE = ("job_waiting",)
"""Indexes with long texts in their entries."""

OWN = {
    "job": (
        "fillfactor=45",
        "autovacuum_vacuum_scale_factor=0.05",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_cost_delay=0",
    )
}
"""Settings of tables that the migrations make and that speed depends on: 0001 says what each is worth."""

SERVERS = ("autovacuum", "track_counts", "autovacuum_naptime", "autovacuum_vacuum_threshold", "autovacuum_vacuum_scale_factor")
NAP = 300.0
"""Seconds between two looks of autovacuum at a database, at most: five times the default. In that time a busy queue leaves a
million dead rows, which are some hundred megabytes."""


class Table(NamedTuple):
    """A row of the statement about tables."""

    name: str
    bytes: int
    live: int
    dead: int
    vacuumed_ago: float | None
    options: list[str]

    def option(self, name: str) -> str | None:
        """Return a setting of its own; None if it has none."""
        return next((text.partition("=")[2] for text in self.options if text.startswith(f"{name}=")), None)


class Index(NamedTuple):
    """A row of the statement about indexes."""

    name: str
    table: str
    bytes: int
    entries: float
    valid: bool

    @property
    def bloated(self) -> bool:
        """Tell whether it is much larger than its entries."""
        entry = WIDE_ENTRY if self.name in WIDE else ENTRY
        return self.bytes > WORTHWHILE and self.bytes > BLOATED * entry * max(self.entries, 0.0)


def _tables(patient: Patient) -> list[Table]:
    return [Table(*row) for row in patient.ask("doctor_tables", patient.schema)]


def _server(patient: Patient) -> dict[str, str]:
    return {name: value for name, value, *_ in patient.ask("doctor_settings", list(SERVERS))}


def _rows(patient: Patient) -> Iterator[Found]:
    server, found = _server(patient), []
    for table in _tables(patient):
        at_rest = table.option("autovacuum_vacuum_threshold") or server.get("autovacuum_vacuum_threshold", "50")
        share = table.option("autovacuum_vacuum_scale_factor") or server.get("autovacuum_vacuum_scale_factor", "0.2")
        comes = float(at_rest) + float(share) * table.live
        if table.dead >= max(DEAD, LATE * comes):
            ago = "never" if table.vacuumed_ago is None else f"{lasted(table.vacuumed_ago)} ago"
            told = f"{table.name} has {table.dead:,} dead rows and {table.live:,} others; it was vacuumed {ago}"
            means = "autovacuum should have come, or an old snapshot keeps the rows (check 'horizon'); looks walk over them"
            found.append(Found(WARN, told, means, f'vacuum (verbose) "{patient.schema}".{table.name};', table.name))
        elif table.bytes > HOLLOW and table.bytes > ROW_BYTES * (table.live + table.dead + 1):
            told = f"{table.name} takes {sized(table.bytes)} for {table.live:,} rows: mostly empty pages"
            means = "it was so large once, and new rows fill it again; claims do not read it, vacuum and backups do"
            remedy = f'vacuum (full) "{patient.schema}".{table.name};  -- locks it: while nothing enqueues and works'
            found.append(Found(NOTE, told, means, remedy, table.name))
    yield from first_of(found, "table") if found else [Found(OK, "no table has many dead rows or empty pages")]


def _indexes(patient: Patient) -> Iterator[Found]:
    found = []
    for index in (Index(*row) for row in patient.ask("doctor_indexes", patient.schema)):
        named = f'"{patient.schema}"."{index.name}"'
        if not index.valid:
            told = f"the index {index.name} is invalid: a build that did not end has left it"
            means = "it costs each write of its table, and no look uses it"
            found.append(Found(WARN, told, means, f"drop index concurrently {named};", index.name))
        elif index.bloated:
            told = f"the index {index.name} has {sized(index.bytes)} for {max(index.entries, 0):,.0f} entries"
            means = "looks may walk over its empty pages; a leader builds those of `job` anew once a day (FASTQ_REINDEX_INTERVAL)"
            found.append(Found(NOTE, told, means, f"reindex index concurrently {named};", index.name))
    yield from first_of(found, "index") if found else [Found(OK, "no index is much larger than its entries")]


def _autovacuum(patient: Patient) -> Iterator[Found]:
    server, found = _server(patient), []
    for name in ("autovacuum", "track_counts"):
        if server.get(name) == "off":
            remedy = f"alter system set {name} = on; select pg_reload_conf();"
            found.append(
                Found(BAD, f"{name} is off", "nothing removes dead rows: each table grows, and slows down", remedy, name)
            )
    if float(server.get("autovacuum_naptime", "60")) > NAP:
        told = f"autovacuum looks at this database every {server['autovacuum_naptime']} s"
        remedy = "alter system set autovacuum_naptime = '1min'; select pg_reload_conf();"
        found.append(Found(WARN, told, "a busy queue leaves a million dead rows meanwhile", remedy, "autovacuum_naptime"))
    for table in _tables(patient):
        named = f'alter table "{patient.schema}".{table.name}'
        if table.option("autovacuum_enabled") in ("false", "off", "0", "no"):
            told = f"autovacuum is off for {table.name}"
            remedy = f"{named} reset (autovacuum_enabled);"
            found.append(Found(BAD, told, "nothing removes its dead rows", remedy, table.name))
        if missing := [text for text in OWN.get(table.name, ()) if text not in table.options]:
            told = f"{table.name} has not the settings that fastq gave it: {', '.join(missing)}"
            means = "claims find no room beside their rows, or vacuum comes too late"
            found.append(Found(WARN, told, means, f"{named} set ({', '.join(missing)});", table.name))
    yield from found or [Found(OK, "autovacuum is on, for each table of fastq's")]


CHECKS = (
    Check("rows", "do tables have many dead rows, or empty pages?", _rows),
    Check("indexes", "are indexes much larger than their entries, or invalid?", _indexes),
    Check("autovacuum", "is autovacuum on, as fastq's tables need it?", _autovacuum),
)
