"""The rows that stand beside the jobs of a ground: processes, gates, unique keys, workflows, periodic jobs, statistics, logs.

Each function fills some tables, in numbers that fit those of the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.scale.ground import Ground
    from fastq.postgres.db import Connection

KEYS = 20
"""Living jobs for each unique key."""

FLOWS = 500
"""Living jobs for each workflow."""

PROCESSES = """
insert into fastq.process (id, host, pid, supervisor, queues, expires_at, kinds)
select n, 'web-' || (n - 1) / 4, 100 + n, format('web-%s:7:x', (n - 1) / 4),
    'default,mails,reports,images,feeds,billing,search,imports,exports,nightly',
    now() + interval '10 years', (select array_agg(distinct kind::text) from (select kind from fastq.job
        order by id desc limit 1000) as some_of_them)
from generate_series(1, 40) as n
"""

PROGRESS = """
insert into fastq.job_progress (job, fraction, attempt, text)
select id, 0.5, 1, 'half of the pages' from fastq.job where seq is not null and state = 'running' order by queue,
    priority, seq limit 500
"""

ADMITTED = """
insert into fastq.gate_permit (job, queue, gates)
select id, queue, format('[["limit", "%s", "%s", 1, 20]]', (array['mail-api', 'render'])[1 + id % 2], id % 512)
from (select id, queue from fastq.job order by id desc limit 2000) as some_of_them
"""

HELD = """
insert into fastq.gate_permit (job, queue, gates)
select id, queue, format('[["order-hold", "stream", "%s", 1, 1]]', id) from (
    select id, queue from fastq.dead order by finalized_at desc offset 10 limit 50
) as some_of_them
on conflict do nothing
"""

GATES = "insert into fastq.gate (name, at_most) values ('render', 0), ('mail-api', 50)"

PAUSES = """
with queues as (insert into fastq.queue (name, paused_at, pause_reason) values ('slow', now(), 'the partner is down'),
    ('mails', null, null))
insert into fastq.pause (sort, name, key, reason) values ('kind', 'clean_feed', '', 'a bug'), ('gate', 'mail-api',
    '"7"', 'a bounce')
"""

UNIQUE = """
insert into fastq.unique_key (key, job_id, since, until, expires_at)
select sha256(id::text::bytea), id, now() - (id % 86400) * interval '1 s', (array['end', 'success', 'time'])[1 + id % 3],
    case when id % 3 = 2 then now() + interval '10 years' end
from (
    (select id from fastq.job order by id desc limit $1::bigint)
    union all
    (select id from fastq.dead order by finalized_at desc limit $1::bigint)
) as some_of_them
on conflict do nothing
"""

WORKFLOWS = """
insert into fastq.workflow (name, created_at, ended_at, steps, completed, discarded)
select 'import-' || n % 9, now() - ($1::bigint - n) * interval '1 s', case when n % 10 > 0 then now() end, 10,
    case when n % 10 > 0 then 10 - (n % 7 = 0)::int else 4 end, (n % 7 = 0)::int
from generate_series(1, $1::bigint) as n
"""

STEPS = """
insert into fastq.workflow_step (workflow, step, job, unmet, state, passed, kind, name)
select workflow.id, step, workflow.id * 10 + step, 0, case when step < workflow.completed
    then 'completed'::fastq.state end, step < workflow.completed,
    'build_report', 'step-' || step
from fastq.workflow cross join generate_series(0, 9) as step
"""

EDGES = """
insert into fastq.workflow_edge (workflow, parent, child, run)
select workflow.id, step - 1, step, false from fastq.workflow cross join generate_series(1, 9) as step
"""

PERIODIC = """
insert into fastq.periodic (name, schedule, hash, kind, args, queue, priority, max_attempts, last_tick, next_tick)
select 'tick-' || n, case when n % 2 = 0 then 'every 60' else 'cron 0 4 * * *' end, '0f', 'build_report', '{}',
    'reports', 1, 25,
    now(), now() + interval '1 minute'
from generate_series(1, 30) as n
"""

TICKS = """
insert into fastq.periodic_tick (name, tick, job_id)
select 'tick-' || n, finalized_at - interval '2 s', max(id)
from generate_series(1, 30) as n
cross join lateral (
    select id, finalized_at from fastq.dead
    where finalized_at <= now() - (n % 2) * interval '1 day'
    order by finalized_at desc offset n * 50 limit 50
) as ended
group by 1, 2
"""

STATS = """
insert into fastq.stat (at, grain, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts)
select date_trunc(unit, now(), 'UTC') - nth * step, grain, queue, kind, outcome, jobs, jobs, jobs * 0.2, jobs,
    jobs * 2.0, bins, counts
from (
    values (1::smallint, 'minute', interval '1 minute', 180), (2, 'hour', interval '1 hour', 72), (3, 'day',
        interval '1 day', 60)
) as given (grain, unit, step, length)
cross join lateral generate_series(1, length) as nth
cross join (
    select distinct on (kind) kind::text as kind, queue::text as queue from (select kind, queue from fastq.job
        order by id desc limit 5000) as newest
) as kinds
cross join (
    values ('completed', 900, '{60,61,62,63,64,65,66,67,68,310,314,318,322,326,330,334}'::smallint[],
        '{100,100,100,100,100,100,100,100,100,200,200,100,100,100,100,100}'::bigint[]),
        ('retryable', 30, '{66,70,330}', '{10,20,30}'), ('discarded', 3, '{70,334}', '{3,3}'), ('enqueued', 930, '{}', '{}')
) as outcomes (outcome, jobs, bins, counts)
"""

LOGS = """
insert into fastq.job_log (job, claim, start_at, attempt, size, lines, ended, kind, text)
select $1::bigint, 1, sheet * 8000, 1, 8000, 80, false, 'build_report',
    repeat(E'2026-11-19T10:00:00+00:00\tINFO\tapp.reports\tread a page of the feed and wrote it down\n', 80)
from generate_series(0, 9) as sheet
"""

RECORDS = """
insert into fastq.job_step (job, sort, name, attempt, took, output)
select $1::bigint, 'step', 'page ' || n, 1, 0.5, '{"rows": 100}' from generate_series(1, 30) as n
"""

AUDIT = """
insert into fastq.audit (asked_by, verb, words, jobs) select 'ada', 'retry', 'state:discarded since:2h', n
    from generate_series(1, 500) as n
"""

OPERATIONS = """
insert into fastq.operation (verb, words, state, asked_by, started_at, ended_at, expected, at_least, done, place)
select 'retry', 'state:discarded since:2h', 'done', 'ada', now(), now(), n, false, n, '' from generate_series(1, 500) as n
"""

RUNS = "select id from fastq.job where seq is not null and state = 'running' order by queue, priority, seq limit 1"


def processes(ground: Ground, connection: Connection) -> None:
    """Make the processes that run the running jobs, and what these have told."""
    del ground
    connection.execute(PROCESSES)
    connection.execute(PROGRESS)
    [(job,)] = connection.execute(RUNS)
    for text in (LOGS, RECORDS):
        connection.execute(text, job)


def gates(ground: Ground, connection: Connection) -> None:
    """Make permits, numbers of gates and pauses."""
    del ground
    for text in (ADMITTED, HELD, GATES, PAUSES):
        connection.execute(text)


def keys(ground: Ground, connection: Connection) -> None:
    """Make the keys of unique jobs, half of them held by jobs that have ended."""
    connection.execute(UNIQUE, max(10, ground.living // KEYS // 2))


def workflows(ground: Ground, connection: Connection) -> None:
    """Make workflows with their steps."""
    connection.execute(WORKFLOWS, max(10, ground.living // FLOWS))
    connection.execute(STEPS)
    connection.execute(EDGES)


def periodic(ground: Ground, connection: Connection) -> None:
    """Make periodic jobs with their ticks."""
    del ground
    connection.execute(PERIODIC)
    connection.execute(TICKS)


def statistics(ground: Ground, connection: Connection) -> None:
    """Make the statistics of three hours, three days and two months, and a record of changes."""
    del ground
    connection.execute(STATS)
    connection.execute(AUDIT)
    connection.execute(OPERATIONS)


PIECES = {
    "processes": processes,
    "gates": gates,
    "unique keys": keys,
    "workflows": workflows,
    "periodic jobs": periodic,
    "statistics": statistics,
}
