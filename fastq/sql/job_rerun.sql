-- what: makes jobs available now: waiting ones at once, finished ones back from the archive with their id, one more attempt and
--       no crashes.
-- called by: admin/changes, enqueue/client, enqueue/client_async: retry. $1 ids, $2 channel (null: no hint). Answers like
--            job_cancel with the state before and after.
-- index: job_pkey; job_archive_id (block ranges).
-- locks: the living rows, then the finished ones, each in the order of their ids: like job_delete, or the two would wait for one
--        another.
with mine as (
    select id, state from fastq.job where id = any ($1::bigint[]) order by id for update
), hurried as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), scheduled_at = null, waits_for = null
    from mine
    where job.id = mine.id and mine.state = any ('{scheduled,retryable,waiting}'::fastq.state[])
    returning job.id, queue
), kept as (
    select id from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from mine) is not null  -- not before those are locked
    order by id
    for update
), taken as (
    delete from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from kept) is not null
    returning *
), revived as (
    -- Below the largest smallint by one: the claim adds one, and must never fail.
    insert into fastq.job (id, created_at, attempted_at, state, priority, attempt, max_attempts, crashes, queue, kind, args, tags, errors, meta)
    overriding system value
    select id, created_at, attempted_at, 'available', priority, least(attempt, 32766), greatest(max_attempts, least(attempt, 32766) + 1), 0,
        queue, kind, args, tags, errors, case when (meta - 'cause'::text) <> '{}'::jsonb then meta - 'cause'::text end
    from taken
    returning id, queue
), woken as (
    select count(pg_notify($2::text, queue)) from (select queue from hurried union select queue from revived) as hint where $2::text is not null
)
select given.id, coalesce(mine.state, taken.state)::text,
    case when mine.state = 'running' then 'running' when coalesce(mine.id, revived.id) is not null then 'available' else 'missing' end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join taken on taken.id = given.id
left join revived on revived.id = given.id
cross join woken
order by nth
