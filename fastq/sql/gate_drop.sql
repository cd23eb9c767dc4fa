-- what: ends those of the jobs $4 as cancelled that still wait at gates: they could not start at once, and their rate drops such jobs
--       (cause 'rate'). Answers with their ids.
-- called by: lead/gate/gatekeeper. $1-$3 fence, $5 channel (null: no hint).
-- index: job_pkey; lease_pkey; gate_permit_pkey.
-- locks: the lease's row, for key share; the jobs' rows; locked ones are skipped, and the gatekeeper tries them again.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), waiting as materialized (
    select job.id
    from unnest($4::bigint[]) as given (id)
    join fastq.job on job.id = given.id
    where exists (select from held) and job.state = 'waiting' and starts_with(job.waits_for, '[')
    for update of job skip locked
), moved as (
    delete from fastq.job using waiting
    where job.id = waiting.id
    returning job.*
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), 'cancelled', priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, coalesce(meta, '{}') || '{"cause": "rate"}'::jsonb
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
), woken as (
    select pg_notify($5::text, '@workflow') from (select from noted limit 1) as hint where $5::text is not null
)
select (select count(*) from held), (select coalesce(array_agg(id), '{}') from archived), (select count(*) from told), (select count(*) from woken)
