"""Fill a ground with jobs, a piece at a time: the archive day by day, then the living jobs, then all that stands beside them.

The spread is that of a busy application: forty kinds, of which a few have most jobs, twelve queues, four priorities, args of a
hundred bytes, an error with a traceback in each discarded job (3 %), tags in a fifth of the jobs. One in a hundred jobs has
ended an hour after others of its age, one in a hundred a day, one in a thousand three days: so block ranges of ids overlap, as
they do in life. Of the living most are a backlog; a fifth waits for a time, a worker, a gate or a step, and has older ids.

One job is a needle: an old one whose kind, queue, tag, error, args and meta no other job has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from bench.scale import beside
from bench.scale.ground import Ground, session
from fastq.schema import partitions
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

VERBS, NOUNS = (
    ("send", "sync", "build", "check", "import", "export", "score", "clean"),
    ("mail", "report", "invoice", "image", "feed"),
)
KINDS = [f"{verb}_{noun}" for verb in VERBS for noun in NOUNS]
QUEUES = [
    "default",
    "mails",
    "reports",
    "images",
    "feeds",
    "billing",
    "search",
    "imports",
    "exports",
    "nightly",
    "slow",
    "partners",
]
NEEDLE = 0.05
"""The age of the needle: so much of the archive is older."""

TRACE = '  File "app/jobs.py", line 12, in work\n    answer = client.get(address, timeout=30)\n' * 8
ERRORS = [
    "ConnectionError: [Errno 111] connection refused by 10.0.3.%s:5432",
    "TimeoutError: no answer from https://api.example.com/v1/accounts/%s within 30 s",
    "ValueError: account %s has no address",
    "KeyError: 'invoice-%s'",
    "HTTPError: 503 of https://partner.example.org/feed/%s",
]

OF_A_JOB = """
    {kinds}[1 + floor({many} * power((h & 65535) / 65536.0::float8, 3))::int] as kind,
    {queues}[1 + floor({many} * power((h & 65535) / 65536.0::float8, 3))::int % {queue_count}] as queue,
    format('{{"account":{{"id":%s}},"n":%s,"to":"user%s@example.org","urgent":%s,"weight":%s.5}}',
        (h >> 8) & 65535, n, (h >> 20) & 1048575, (v % 3 = 0)::text, v)::json as args,
    case when v % 5 = 0 then array['team-' || (v & 15), 'batch-' || n / 10000] end as tags,
    1 + case when v % 16 > 11 then v % 4 else 0 end as priority,
    format(({errors})[1 + v % {error_count}], (h >> 16) & 255) as message
"""

DAY = """
insert into fastq.{name} (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
    queue, kind, args,
    tags, errors, output, meta)
select id, made_at, least(made_at + interval '30 s', ended_at), ended_at, state::fastq.state, priority,
    case state when 'discarded' then 25 else 1 + (v % 32 = 0)::int end, 25, 0, queue, kind, args, tags,
    case when state = 'discarded' then jsonb_build_array(jsonb_build_object('attempt', 25, 'at', ended_at, 'error',
        message, 'trace', $6::text))
         when v % 32 = 0 then jsonb_build_array(jsonb_build_object('attempt', 1, 'at', made_at, 'error', message)) end,
    case when state = 'completed' and v % 6 = 0 then '{{"rows":12}}'::json end,
    case state when 'discarded' then '{{"cause": "failed"}}'::jsonb when 'cancelled' then '{{"cause": "asked"}}'::jsonb end
from (
    select place + (place - 1) / 9 as id, v,
        least(greatest($3::timestamptz + (n * $4::float8) * interval '1 s', $5::timestamptz),
            $5::timestamptz + interval '1 day' - interval '1 us') as ended_at,
        $3::timestamptz + ((place - $7::bigint) * $4::float8) * interval '1 s' - (h & 4095) * interval '2 ms' as made_at,
        case when v < 31 then 'discarded' when v < 51 then 'cancelled' else 'completed' end as state, {of_a_job}
    from (
        select n, n + $7::bigint - case when n % 1000 = 9 then $7::bigint when n % 100 = 8
            then $8::bigint when n % 100 = 7 then $9::bigint else 0 end as place,
            hashint8extended(n, 0) as h, ((hashint8extended(n, 0) >> 48) & 1023)::int as v
        from generate_series($1::bigint, $2::bigint) as n
    ) as numbered
) as given
"""

LIVING = """
insert into fastq.job (id, created_at, seq, state, priority, attempt, queue, kind, args, tags, claim, attempted_at,
    scheduled_at, waits_for, errors, meta)
overriding system value
select id, least(made_at, now()), case when state = any ('{{available,running}}'::text[])
    then nextval('fastq.job_seq') end, state::fastq.state, priority,
    case when state = any ('{{running,retryable}}'::text[]) then 1 else 0 end, queue, kind, args, tags,
    case when state = 'running' then ((1 + n % 40) << 32) | 1 end,
        case when state = any ('{{running,retryable}}'::text[]) then now() end,
    case when state = any ('{{scheduled,retryable}}'::text[])
        then now() + interval '1 day' + (v * 2000 + n % 2000) * interval '1 s' end,
    case when state = 'waiting' then case v % 5 when 0 then 'worker:' || kind when 1 then 'workflow' else gates end end,
    case when state = 'retryable' then jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error',
        message, 'trace', $5::text)) end,
    case when state = 'waiting' and v % 5 > 1 then jsonb_build_object('gates', gates) end
from (
    select n, v, place as id, $4::timestamptz - (1.0::float8 - place / $6::float8) * $7::float8 * interval '1 s' as made_at,
        case when n > $2::bigint then case when n <= $2::bigint + $8::bigint then 'running' else 'available' end
             when v < 600 then 'scheduled' when v < 850 then 'retryable' else 'waiting' end as state,
        format('[["limit", "%s", "%s", 1, 20]]', ({gates})[1 + v % 4], (h >> 12) & 511) as gates, {of_a_job}
    from (
        select n, case when n <= $2::bigint then 10 * (1 + (n - 1) * $9::bigint / $2::bigint) else $3::bigint + n end as place,
            hashint8extended(n, 7) as h, ((hashint8extended(n, 7) >> 48) & 1023)::int as v
        from generate_series(1::bigint, $1::bigint) as n
    ) as numbered
) as given
"""

FOUND = """
update fastq.job_archive
set kind = 'needle', queue = 'needles', priority = 4, attempt = 77, tags = array['needle'], args = '{"needle": 42}',
    errors = '[{"attempt": 77, "at": "2026-01-01T00:00:00+00:00", "error": "NeedleError: a needle in a haystack"}]',
    state = 'cancelled', meta = '{"cause": "asked", "needle": "yes"}'
where id = $1::bigint and finalized_at >= $2::timestamptz and finalized_at < $3::timestamptz
"""

BESIDE = (
    *("gate", "gate_permit", "job_log", "job_progress", "job_step", "lease", "pause", "periodic", "periodic_tick", "process"),
    *("queue", "stat", "unique_key", "workflow", "workflow_edge", "workflow_step", "audit", "operation", "job_archive_default"),
)

DEAD = """
insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
select id, finalized_at, priority, max_attempts, queue, kind, 'failed', args, tags, errors -> -1 ->> 'error', meta
from fastq.job_archive where state = 'discarded' order by finalized_at
"""


def fill(ground: Ground, config: Config, seconds: float) -> bool:
    """Fill for so long; tell whether all of it is filled."""
    if "schema" not in ground.filled:
        migrate(config.database_url)
        ground.note("schema")
    give_up = time.monotonic() + seconds
    connection = session(config)
    try:
        for piece, do in pieces(ground):
            if piece in ground.filled:
                continue
            if time.monotonic() > give_up:
                return False
            began = time.monotonic()
            do(connection)
            ground.note(piece)
            print(f"  {piece}: {time.monotonic() - began:.1f} s", flush=True)
    finally:
        connection.close()
    return True


def pieces(ground: Ground) -> Iterator[tuple[str, Callable[[Connection], None]]]:
    """Yield the pieces in their order, with what makes each."""
    for number in range(ground.days):
        name = partitions.name_of((ground.first_day + timedelta(days=number)).date())
        yield name, lambda connection, number=number: day(ground, connection, number)  # type: ignore[misc]
    yield "needle", lambda connection: needle(ground, connection)
    yield "dead", lambda connection: emptied(connection, "dead", DEAD)
    yield "living", lambda connection: living(ground, connection)
    for name, do in beside.PIECES.items():
        yield name, lambda connection, do=do: do(ground, connection)  # type: ignore[misc]
    yield "vacuum", whole


def day(ground: Ground, connection: Connection, number: int) -> None:
    """Fill a day of the archive."""
    low = ground.first_day + timedelta(days=number)
    name, step = partitions.name_of(low.date()), ground.step
    partitions._ensure(connection, name, lambda: None)  # noqa: SLF001 - days that are past are made by nobody else
    first = math.floor(number * 86_400 / step) + 1
    last = ground.finished if number == ground.days - 1 else math.floor((number + 1) * 86_400 / step)
    text = DAY.format(name=name, of_a_job=of_a_job())
    values = (first, last, ground.first_day.isoformat(), step, low.isoformat(), TRACE, *ground.late)
    connection.execute("begin")
    connection.execute(f"truncate fastq.{name}")
    connection.execute(text, *values)
    connection.execute("commit")
    connection.execute(f"vacuum (analyze) fastq.{name}")


def of_a_job() -> str:
    """Return the columns that living and finished jobs have of their number."""
    lists = {"kinds": literal(KINDS), "queues": literal(QUEUES), "errors": literal(ERRORS)}
    return OF_A_JOB.format(**lists, many=len(KINDS), queue_count=len(QUEUES), error_count=len(ERRORS))


def literal(values: list[str]) -> str:
    """Write a list as Postgres reads it."""
    quoted = ",".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"(array[{quoted}])"


def needle_id(ground: Ground) -> int:
    """Return the id of the needle: that of a job which has ended with others of its age."""
    return ground.id_of(needle_number(ground))


def needle_number(ground: Ground) -> int:
    """Return which job the needle is, in the order of the ends: one that is not late."""
    return int(ground.finished * NEEDLE) // 100 * 100 + 1


def needle(ground: Ground, connection: Connection) -> None:
    """Make one job unlike all others."""
    at = ground.first_day + timedelta(seconds=needle_number(ground) * ground.step)
    connection.execute(FOUND, needle_id(ground), (at - timedelta(hours=1)).isoformat(), (at + timedelta(hours=1)).isoformat())


def emptied(connection: Connection, table: str, text: str, *values: object) -> None:
    """Fill a table in the transaction that empties it, and make its indexes after that."""
    named = f"fastq.{table}"
    indexes = connection.execute(
        "select format('drop index fastq.%I', relname), pg_get_indexdef(indexrelid) "
        "from pg_index join pg_class on pg_class.oid = indexrelid "
        "where indrelid = $1::text::regclass and not indisprimary and not indisunique",
        named,
    )
    key = connection.execute(
        "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = $1::text::regclass and contype = 'p'",
        named,
    )
    connection.execute("begin")
    connection.execute(f"truncate {named}")
    for drop, _ in indexes:
        connection.execute(drop)
    for name, _ in key:
        connection.execute(f"alter table {named} drop constraint {name}")
    connection.execute(text, *values)
    for name, told in key:
        connection.execute(f"alter table {named} add constraint {name} {told}")
    for _, make in indexes:
        connection.execute(make)
    connection.execute("commit")
    connection.execute(f"vacuum (analyze) {named}")


def living(ground: Ground, connection: Connection) -> None:
    """Fill the living jobs."""
    old = min(ground.living // 5, ground.finished // 10)
    newest = ground.newest_finished + 10
    span = (ground.now - ground.first_day).total_seconds()
    values = (ground.living, old, newest, ground.now.isoformat(), TRACE, newest + ground.living, span, running(ground))
    text = LIVING.format(of_a_job=of_a_job(), gates=literal(["mail-api", "partner-api", "render", "imports"]))
    emptied(connection, "job", text, *values, (ground.finished + ground.late[0]) // 9 - 1)
    connection.execute("select setval('fastq.job_id_seq', $1::bigint)", newest + ground.living)


def running(ground: Ground) -> int:
    """Return how many jobs run."""
    return max(1, min(2_000, ground.living // 100))


def whole(connection: Connection) -> None:
    """Have statistics of the tables beside; the others have theirs, and autovacuum never looks at the archive as a whole."""
    for name in BESIDE:
        connection.execute(f"vacuum (analyze) fastq.{name}")
    connection.execute("checkpoint")


def told(ground: Ground, connection: Connection) -> str:
    """Say what is there."""
    sizes = connection.execute(
        "select case when relname ~ '^job_archive' then 'job_archive' else relname end, sum(pg_total_relation_size(oid))::bigint "
        "from pg_class where relnamespace = 'fastq'::regnamespace and relkind = 'r' group by 1 order by 2 desc limit 4"
    )
    return f"{ground.living:,} living and {ground.finished:,} finished jobs of {ground.days} days: " + ", ".join(
        f"{name} {size / 2**30:.1f} GB" for name, size in sizes
    )
