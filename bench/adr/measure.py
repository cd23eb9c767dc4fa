"""Measure what the decisions in docs/adr rest on: `python bench/adr/measure.py [--jobs N] [QUESTION ...]`.

Each question compares what fastq does with what was rejected, statement against statement, by the CPU that the one backend
spends per job, the best of ROUNDS. It works in the schema `fastq_adr`, dropped before and after, of
FASTQ_DATABASE_URL or of an embedded Postgres in a temporary folder. Server and client must be on one machine.
"""

import os
import re
import shutil
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg import pq

from fastq.config import Config
from fastq.postgres import db, embedded
from fastq.schema.migrate import migrate
from fastq.work.codec import twin
from fastq.work.codec.claimed import Claimed

SCHEMA = "fastq_adr"
JOBS = 200_000
BATCH, ROUNDS = 1_000, 3
CALLS = 200
SIZES = 8_388_608, 836  # bytes of args that a claim may bring, and from which on args are counted: the defaults
NUMBER = struct.Struct(">q")
results: dict[str, tuple[float, ...]] = {}  # by label: CPU seconds of Postgres and of this thread for all jobs
FILL = (
    f"insert into {SCHEMA}.job (kind, args) "
    "select 'noop', json_build_object('n', n, 'name', 'somebody') from generate_series(1, $1::int) as n"
)


def cpu(pid: int) -> float:
    """Return the CPU seconds of a backend, by the scheduler's own count."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def per_job(connection: db.Connection, label: str, work: Callable[[], object]) -> None:
    """Note what a piece of work on all jobs cost the backend, and this thread."""
    before, here = cpu(connection.backend_pid), time.thread_time()
    work()
    note(label, cpu(connection.backend_pid) - before, time.thread_time() - here)


def note(label: str, *spent: float) -> None:
    """Keep the best of the rounds."""
    best = results.setdefault(label, spent)
    results[label] = tuple(map(min, best, spent))


def cleared(connection: db.Connection) -> None:
    connection.execute(f"truncate {SCHEMA}.job, {SCHEMA}.job_archive")


def filled(connection: db.Connection) -> None:
    cleared(connection)
    connection.execute(FILL, JOBS)


def claim(connection: db.Connection, number: int, after: int) -> Claimed:
    numbers = [NUMBER.pack(value) for value in (number, after, 0, 0, 0, BATCH, *[2**62] * 4, *SIZES)]
    numbers.insert(1, b"default")
    numbers.append(twin.encode_ints([]))
    return Claimed("default", number, connection.run_blobs("job_claim", numbers)[1])


def parts(connection: db.Connection, size: int = BATCH) -> Iterator[Claimed]:
    """Claim everything, part by part, as a worker process does while there is backlog."""
    [(after,)] = connection.execute(f"select min(seq) - 1 from {SCHEMA}.job")
    for number, part in enumerate(range(after, after + JOBS, size)):
        params = [NUMBER.pack(1 << 32 | number), b"default", *map(NUMBER.pack, (part, part + size, *SIZES))]
        yield Claimed("default", 1 << 32 | number, connection.run_blobs("job_claim_part", params)[1])


def claims(connection: db.Connection) -> Iterator[Claimed]:
    """Claim everything, as a worker process does in its turn."""
    after, number = 0, 1 << 32
    while len(claimed := claim(connection, number, after)):
        after, number = claimed.seqs[-1], number + 1
        yield claimed


def args(connection: db.Connection) -> None:
    """0001: inserting args as json and as jsonb."""
    for kind in ("json", "jsonb"):
        cleared(connection)
        connection.execute(
            f"alter table {SCHEMA}.job alter column args drop default, alter column args type {kind} using args::{kind}"
        )
        text = (
            f"insert into {SCHEMA}.job (kind, args) select 'noop', (e'{{\"n\": ' || n || ', \"name\": \"somebody\"}}')::{kind} "
            "from generate_series(1, $1::int) as n"
        )
        per_job(connection, f"insert, args {kind}", lambda text=text: connection.execute(text, JOBS))
    cleared(connection)
    connection.execute(f"alter table {SCHEMA}.job alter column args type json using args::json")


VISIBLE = f"""
update {SCHEMA}.seen set state = 'running', claim = $1::bigint, attempt = attempt + 1, attempted_at = clock_timestamp()
where ctid = any (array(
    select ctid from {SCHEMA}.seen where state = 'available' and queue = 'default'
    order by queue, priority, seq limit $2::bigint for update skip locked))
returning id, seq"""


def seen_table(connection: db.Connection) -> None:
    connection.execute(f"drop table if exists {SCHEMA}.seen")
    connection.execute(
        f"create table {SCHEMA}.seen (like {SCHEMA}.job including defaults including identity) with (fillfactor = 90)"
    )
    connection.execute(f"create index on {SCHEMA}.seen (queue, priority, seq) where state = 'available'")
    connection.execute(f"create unique index on {SCHEMA}.seen (id)")
    connection.execute(FILL.replace(".job ", ".seen "), JOBS)


def claiming(connection: db.Connection) -> None:
    """0002: a claim that an index sees, and one that none sees, by cursor; then both under a pinned xmin."""

    def visible() -> None:
        number = 0
        while connection.execute(VISIBLE, number, BATCH):
            number += 1

    seen_table(connection)
    per_job(connection, "claim, state in the index's predicate", visible)
    filled(connection)
    per_job(connection, "claim, HOT, by cursor", lambda: [None for _ in claims(connection)])
    for label, pages in (("state in the index's predicate", pinned_visible), ("HOT, by cursor", pinned_cursor)):
        first, last = pages(connection)
        note(f"xmin pinned, {label}: first claims", first)
        note(f"xmin pinned, {label}: last claims", last)


@contextmanager
def pinned(connection: db.Connection) -> Iterator[None]:
    """Hold a transaction open that keeps every dead row."""
    holder = db.connect(connection.url, role="holder", schema=SCHEMA)  # type: ignore[attr-defined]
    holder.execute("begin isolation level repeatable read")
    holder.execute("select count(*) from pg_catalog.pg_class")
    yield
    holder.execute("rollback")
    holder.close()


def ends(times: list[float]) -> tuple[float, float]:
    """Return the medians of the first and the last tenth."""
    tenth = max(1, len(times) // 10)
    return sorted(times[:tenth])[tenth // 2], sorted(times[-tenth:])[tenth // 2]


def pinned_visible(connection: db.Connection) -> tuple[float, float]:
    seen_table(connection)
    times = []
    with pinned(connection):
        for number in range(JOBS // BATCH):
            began = time.perf_counter()
            rows = connection.execute(VISIBLE, number, BATCH)
            times.append(time.perf_counter() - began)
            connection.execute(f"delete from {SCHEMA}.seen where id = any ($1::bigint[])", [row[0] for row in rows])
    return ends(times)


def pinned_cursor(connection: db.Connection) -> tuple[float, float]:
    filled(connection)
    times = []
    after, number = 0, 1 << 32
    with pinned(connection):
        for _ in range(JOBS // BATCH):
            began = time.perf_counter()
            claimed = claim(connection, number, after)
            times.append(time.perf_counter() - began)
            complete(connection, claimed)
            after, number = claimed.seqs[-1], number + 1
    return ends(times)


def complete(connection: db.Connection, claimed: Claimed) -> None:
    ids = twin.encode_ints(sorted(claimed.ids))
    connection.run_blobs("job_complete", [ids, twin.encode_ints([claimed.claim])])


def calls(connection: db.Connection) -> None:
    """0004: a statement beside threads that compute, through psycopg's cursor and by a blocking libpq call."""
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            sum(range(1_000))

    none = twin.encode_ints([])
    for threads in (0, 4):
        workers = [threading.Thread(target=busy, daemon=True) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for label, call in (
            ("psycopg's cursor", lambda: connection.run("job_complete", [], [])),
            ("one blocking libpq call", lambda: connection.run_blobs("job_complete", [none, none])),
        ):
            times = []
            for _ in range(CALLS):
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            note(f"{threads} busy threads, {label}", sorted(times)[CALLS // 2])
        stop.set()
        for worker in workers:
            worker.join()
        stop.clear()


FENCE = f"""
delete from {SCHEMA}.job using unnest($1::bigint[], $2::bigint[]) as given (id, claim)
where job.id = given.id and job.claim = given.claim and job.state = 'running'"""


def fence(connection: db.Connection) -> None:
    """0005: completing by the list of claims, and by a join row by row."""
    filled(connection)
    batches = list(claims(connection))
    per_job(connection, "complete, ids and the list of claims", lambda: [complete(connection, batch) for batch in batches])
    filled(connection)
    batches = list(claims(connection))
    per_job(
        connection,
        "complete, a join of ids and claims",
        lambda: [connection.execute(FENCE, sorted(batch.ids), [batch.claim] * len(batch)) for batch in batches],
    )


def blobs(connection: db.Connection) -> None:
    """0006: a claim that answers with blobs, and one that answers with rows."""
    rows = db.statement("job_claim", SCHEMA).partition("\nselect\n")[0]
    rows += "\nselect * from claimed"

    def by_rows() -> None:
        after, number = 0, 1 << 32
        while found := connection.execute(rows, number, "default", after, 0, 0, 0, BATCH, *[2**62] * 4, *SIZES, []):
            after, number = max(row[1] for row in found), number + 1

    filled(connection)
    per_job(connection, "claim, rows to tuples by psycopg", by_rows)
    filled(connection)
    per_job(connection, "claim, blobs to columns", lambda: [None for _ in claims(connection)])


def archive(connection: db.Connection) -> None:
    """0007: moving jobs to an archive with block-range indexes, with a B-tree on id, with none."""
    drop = f"drop index if exists {SCHEMA}.job_archive_id, {SCHEMA}.job_archive_finalized_at"
    brin = (
        f"create index job_archive_id on {SCHEMA}.job_archive using brin (id) with (pages_per_range = 16)",
        f"create index job_archive_finalized_at on {SCHEMA}.job_archive using brin (finalized_at) with (pages_per_range = 64)",
    )
    designs = {
        "no index": (),
        "B-tree on id": (f"create index job_archive_id on {SCHEMA}.job_archive (id)",),
        "block ranges on id and finalized_at": brin,
    }
    for label, statements in designs.items():
        filled(connection)
        for text in (drop, *statements):
            connection.execute(text)
        batches = list(claims(connection))

        def end(batches: list[Claimed] = batches) -> None:
            for batch in batches:
                ids = twin.encode_ints(sorted(batch.ids))
                connection.run_blobs("job_complete_archive", [ids, twin.encode_ints([batch.claim])])

        per_job(connection, f"to the archive, {label}", end)
        connection.execute(f"vacuum analyze {SCHEMA}.job_archive")
        connection.execute("set enable_bitmapscan = on")  # as operators' connections have it; block ranges need it
        began = time.perf_counter()
        connection.run("job_show", batches[len(batches) // 2].ids[0])
        note(f"find one by id, {label}", time.perf_counter() - began)
        connection.execute("set enable_bitmapscan = off")


def shares(connection: db.Connection) -> None:
    """bench/README.md: what the statement of a claim spends its time on, by leaving parts of it out."""
    whole = db.statement("job_claim", SCHEMA)
    update = whole.partition("\nselect\n")[0]
    few = re.sub(r"returning .*?(?=\n\))", "returning id, seq", update, flags=re.DOTALL)
    few += "\nselect string_agg(int8send(id), ''), string_agg(int8send(seq), '') from claimed"
    others = ", ".join(f"${number}::bigint" for number in (4, 5, 6, 8, 9, 10, 11, 12, 13))  # each must have a type
    others += ", $14::bigint[]"
    at_once = (
        f"queue = $2::text and priority = 1 and seq > $3::bigint and seq <= $3 + $7::bigint and state = 'available'\n"
        f"      and ({others}) is not null\n    returning"
    )
    variants = {
        "a claim": whole,
        "a claim that answers with id and seq only": few,
        "a claim without row locks": whole.replace("for update skip locked", ""),
        "a claim that finds and changes rows in one step": re.sub(
            r"job\.ctid = any.*?returning", at_once, whole, flags=re.DOTALL
        ),
    }
    for label, text in variants.items():
        filled(connection)
        [(before,)] = connection.execute(f"select min(seq) - 1 from {SCHEMA}.job")

        def work(text: str = text, before: int = before) -> None:
            after, number, done = before, 1 << 32, 0
            while done < JOBS:
                numbers = [NUMBER.pack(value) for value in (number, after, 0, 0, 0, BATCH, *[2**62] * 4, *SIZES)]
                numbers.insert(1, b"default")
                numbers.append(twin.encode_ints([]))
                result = connection.raw.pgconn.exec_params(
                    text.encode(), numbers, None, [pq.Format.BINARY] * 14, pq.Format.BINARY
                )
                seqs = result.get_value(0, 1) or b""
                after, number, done = NUMBER.unpack(seqs[-8:])[0], number + 1, done + len(seqs) // 8

        per_job(connection, label, work)


def job(connection: db.Connection) -> None:
    """bench/README.md: what a job takes of the backends that claim and complete it, in batches as large as the runtime's."""
    for name in ("job_complete", "job_complete_archive"):
        filled(connection)
        connection.execute("checkpoint")  # hands on the files of the log, see fastq/bench/load.py ...
        filled(connection)  # ... and these pages are new since, so that their changes are not written whole
        batches: list[Claimed] = []
        size = Config.load().batch
        per_job(
            connection,
            f"a part claimed, batches of {size:,}",
            lambda size=size, batches=batches: batches.extend(parts(connection, size)),
        )

        def end(batches: list[Claimed] = batches, name: str = name) -> None:
            for batch in batches:
                ids = twin.encode_ints(sorted(batch.ids))
                connection.run_blobs(name, [ids, twin.encode_ints([batch.claim])])

        per_job(connection, f"{name}, batches of {size:,}", end)


QUESTIONS = {each.__name__: each for each in (args, claiming, calls, fence, blobs, archive, shares, job)}


@contextmanager
def database() -> Iterator[str]:
    url = Config.load().database_url
    if url:
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="fastq-adr-", dir="/tmp"))
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    with embedded.start(folder) as server:
        yield server.url
    shutil.rmtree(folder)


def told(postgres: float, client: float | None = None) -> str:
    """Write one time of a statement, or two of all jobs."""
    if client is None:
        return f"{postgres * 1e3:7.2f} ms"
    return f"{postgres / JOBS * 1e6:7.2f} us Postgres {client / JOBS * 1e6:6.2f} us client, per job"


def main(names: list[str]) -> None:
    """Answer the questions that were named, all without a name."""
    global JOBS, CALLS
    if names[:1] == ["--jobs"]:
        JOBS, CALLS, names = int(names[1]), 10, names[2:]
    with database() as url:
        connection = db.connect(url, role="adr", schema=SCHEMA, timeout=600.0)
        connection.url = url  # type: ignore[attr-defined]
        connection.execute("set client_min_messages = warning")
        connection.execute(f"drop schema if exists {SCHEMA} cascade")
        migrate(url, SCHEMA)
        filled(connection)  # what grows a file and makes the first WAL is paid here
        list(claims(connection))
        [(version,)] = connection.execute("show server_version")
        print(f"Postgres {version}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, {JOBS:,} jobs, batches of {BATCH:,}")
        for name in names or QUESTIONS:
            print(QUESTIONS[name].__doc__, flush=True)
            results.clear()
            for _ in range(ROUNDS):
                QUESTIONS[name](connection)
            for label, spent in results.items():
                print(f"  {label:54s} {told(*spent)}", flush=True)
        connection.execute(f"drop schema {SCHEMA} cascade")
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
