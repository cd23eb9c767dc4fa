-- what: moves waiting jobs to the archive as cancelled, and asks for the end of running ones; answers for each id with the state
--       before and after.
-- called by: admin/bulk/single, admin/changes, enqueue/client, enqueue/client_async, enqueue/uniques: cancel. $1 ids, $2 channel (null: no hint). The state goes as
--            text: a driver asks the server about types that it does not know, in a statement that may find anybody's functions.
-- index: job_pkey; job_archive_id (block ranges); gate_permit_pkey.
-- locks: the living rows, in the order of their ids.
with mine as (
    select id, state from fastq.job where id = any ($1::bigint[]) order by id for update
), moved as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.state <> 'running'
    returning job.*
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), 'cancelled', priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, coalesce(meta, '{}') || '{"cause": "asked"}'::jsonb
    from moved
    returning id
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from moved where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, 'cancelled'
    from moved where meta #>> '{workflow,1}'::text[] is not null
    returning id
), asked as (
    update fastq.job set cancel_requested = true
    from mine
    where job.id = mine.id and mine.state = 'running'
    returning job.id
), woken as (
    select count(pg_notify($2::text, wake))
    from (select '@cancel' as wake from asked union select '@gate' from freed union select '@workflow' from noted) as hint where $2::text is not null
)
select given.id, coalesce(mine.state, done.state)::text,
    case when archived.id is not null then 'cancelled' when asked.id is not null then 'asked'
         when done.id is not null then 'finished' else 'missing' end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join archived on archived.id = given.id
left join asked on asked.id = given.id
left join (select id, state from fastq.job_archive where id = any ($1::bigint[])) as done on done.id = given.id
cross join woken
order by nth
