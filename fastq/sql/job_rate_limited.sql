-- what: gives running jobs back that found a rate exceeded: they wait at their gates again, and nothing starts at their keys for a while.
--       The attempt does not count. A job that goes through no rate is run again after that time; one with a cancellation asked for
--       ends cancelled. Answers with the number of rows that were still ours.
-- called by: work/complete/writes. Arrays of one length: $1 ids, $2 claims, $3 seconds. $4 channel (null: no hint).
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::float8[]) as given (id, claim, seconds)
), mine as (
    select job.id, job.cancel_requested, clock_timestamp() + make_interval(secs => given.seconds) as until,
        case when strpos(job.meta ->> 'gates'::text, '["rate",') > 0 then job.meta ->> 'gates'::text end as gates
    from fastq.job
    join given on job.id = given.id and job.claim = given.claim
    where job.state = 'running'
    for update of job
), again as (
    update fastq.job
    set state = (case when mine.gates is null then 'scheduled' else 'waiting' end)::fastq.state,
        seq = null, attempt = attempt - 1, claim = null,
        scheduled_at = case when mine.gates is null then mine.until end,
        waits_for = mine.gates
    from mine
    where job.id = mine.id and not mine.cancel_requested
    returning job.id, job.queue, job.priority, job.meta, job.waits_for, mine.until,
        mine.gates is null and not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order') as leaves
), cancelled as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.cancel_requested
    returning job.*
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), 'cancelled', priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, coalesce(meta, '{}') || '{"cause": "asked"}'::jsonb
    from cancelled
    returning id
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from again where leaves union all select id, meta from cancelled) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, 'cancelled'
    from cancelled where meta #>> '{workflow,1}'::text[] is not null
    returning id
), returned as (
    delete from fastq.gate_permit
    where job = any (array(select id from again where waits_for is not null))
    returning job
), limited as (
    -- One event says that they have left, wait again and hold their keys up: no other job of the key goes in between.
    insert into fastq.gate_event (queue, gates, jobs, priority, job, until)
    select queue, waits_for, count(*), priority, min(id), max(until) from again where waits_for is not null group by queue, waits_for, priority
    returning id
), woken as (
    select pg_notify($4::text, wake)
    from (
        select '@gate' as wake from told union select '@gate' from limited
        union select '@workflow' from noted
        union select '@due' from again where waits_for is null
    ) as hint
    where $4::text is not null
)
select (select count(*) from again) + (select count(*) from archived), (select count(*) from woken), (select count(*) from returned)
