"""Jobs as rows for the tests of the statements: put there by hand, claimed, and looked at afterwards."""

import struct
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import dict_row

from fastq.postgres import db

START = (0, 0, 0, 0)  # the cursors of the four priorities before the first seq
END = 2**62  # above every seq
NO_BOUND = (2**62, 2**62)  # bytes of large args that a claim may bring, and from which on they are large
CHANNEL = "fastq"
ERROR = '{"error": "boom"}'


@dataclass(frozen=True)
class Claimed:
    """One job as a claim tells it."""

    id: int
    seq: int
    attempt: int
    max_attempts: int
    priority: int
    kind: str
    args: str


def session(url, **options):
    """Open a session as the runtime does."""
    return db.connect(url, role="test", **options)


def claim_number(process, number):
    """Make the value of `claim` for a claim of a process."""
    return process << 32 | number


def add(connection, count=1, **columns):
    """Insert equal jobs, with the columns' defaults where none is given; return their ids in order."""
    columns.setdefault("kind", "nap")
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    values = sql.SQL(", ").join(map(sql.Literal, columns.values()))
    text = sql.SQL("insert into fastq.job ({}) select {} from generate_series(1, {}) returning id").format(names, values, count)
    return [job_id for (job_id,) in connection.execute(text.as_string(connection.raw))]


def claim(connection, claim=1 << 32 | 1, *, queue="default", after=START, limit=100, upto=END, bound=NO_BOUND, aside=()):
    """Claim through the statement and take the blobs apart."""
    return parts_of(connection.run_one("job_claim", claim, queue, *after, limit, *[upto] * 4, *bound, list(aside)))


def parts_of(row):
    """Take the answer of a claim apart."""
    ids, seqs, packs, _, kinds, args, *_ = row
    if ids is None:
        return []
    numbers = (struct.unpack(f">{len(blob) // 8}q", blob) for blob in (ids, seqs, packs))
    rows = zip(*numbers, kinds.split("\x1e"), args.split(",\x1e"), strict=True)
    return [
        Claimed(job_id, seq, pack >> 32, pack >> 16 & 0xFFFF, pack & 0xFFFF, kind, arg) for job_id, seq, pack, kind, arg in rows
    ]


def claimed_ids(connection, *args, **options):
    """Claim and return the ids alone."""
    return [job.id for job in claim(connection, *args, **options)]


def living(connection, job_id):
    """Return the row of a living job by column; None if there is none."""
    return look(connection, "job", job_id)


def archived(connection, job_id):
    """Return the archive's row of a job by column; None if there is none."""
    return look(connection, "job_archive", job_id)


def look(connection, table, job_id):
    with connection.raw.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(f"select * from fastq.{table} where id = $1", [job_id]).fetchall()
    assert len(rows) <= 1, f"{len(rows)} rows for job {id} in {table}"
    return rows[0] if rows else None


def count(connection, table):
    """Count the rows of a table."""
    return connection.execute(f"select count(*) from fastq.{table}")[0][0]


def send_look(cursor, connection, next_claim, limit):
    """Look for up to so many jobs; return the answers of the claims."""
    claimed = []
    last = cursor.send_look(connection, lambda _: next_claim(), limit, claimed.append)
    return [*claimed, last] if last is not None else claimed


def send_part(cursor, connection, claim, part):
    """Claim a part."""
    return cursor.send_part(connection, lambda _: claim, part)
