-- what: puts available jobs of one queue to waiting if their kind, with the version of their args as in job_retry, is none of $2,
--       and the kind is paused or no living process of the queue has a worker for it. It looks at the first $7 jobs after each priority's cursor. Answers with how many jobs it looked at, how many
--       wait now, which kinds these have, and the first job of each. A process of a program that announces no kinds may have any
--       kind: then no job is put to waiting.
-- called by: work/claim/resting: before a process's first claim, and where one has brought jobs of unknown kinds and there is
--            backlog. $1 queue, $3-$6 cursor of priority 1-4 (exclusive), $8 channel (null: no hint).
-- index: job_ready, one range per priority; job_pkey; process has as many rows as there are worker processes.
-- locks: the rows that are put to waiting; rows that others have locked are skipped.
with looked as materialized (
    select pick.id, pick.kind, pick.kind || coalesce('@' || (pick.meta ->> 'version'::text), '') as name
    from (values (1::smallint, $3::bigint), (2, $4::bigint), (3, $5::bigint), (4, $6::bigint)) as range (priority, after)
    cross join lateral (
        select job.id, job.kind, job.meta
        from fastq.job
        where job.queue = $1::text and job.priority = range.priority and job.seq > range.after and job.state = 'available'
        order by job.seq
        limit $7::bigint
    ) as pick
    limit $7::bigint
), unknown as materialized (
    select met.name
    from (select kind, name from looked group by kind, name) as met
    where not met.name = any ($2::text[]) and (
        exists (select from fastq.pause where pause.sort = 'kind' and pause.name = met.kind)
        or not exists (
            select from fastq.process
            where process.expires_at > clock_timestamp() and $1::text = any (string_to_array(process.queues, ','))
              and (process.kinds is null or met.name = any (process.kinds))
        )
    )
), mine as (
    select job.id, looked.name
    from looked
    join fastq.job on job.id = looked.id
    where exists (select from unknown where unknown.name = looked.name) and job.state = 'available'
    for update of job skip locked
), rested as (
    update fastq.job
    set state = 'waiting', seq = null, waits_for = 'worker:' || mine.name
    from mine
    where job.id = mine.id
    returning job.id, mine.name
), woken as (
    select pg_notify($8::text, '@waiting ' || $1::text) from (select from rested limit 1) as hint where $8::text is not null
)
select
    (select count(*) from looked),
    (select count(*) from rested),
    coalesce(array_agg(name), '{}'),
    coalesce(array_agg(first), '{}'),
    (select count(*) from woken)
from (select name, min(id) as first from rested group by name) as told
