-- what: has running jobs wait for a signal, up to a time or for ever; the attempt does not count. A job that was sent a signal since it
--       has looked is due at once. A job with a cancellation asked for ends cancelled. Answers with the number of rows that were still
--       ours.
-- called by: work/complete/writes. Arrays of one length: $1 ids, $2 claims, $3 seconds (infinity: for ever), $4 names of signals and
--            how many signals the job had been sent, as JSON. $5 channel (null: no hint).
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::float8[], $4::text[]) as given (id, claim, delay, parks)
), mine as (
    select job.id, job.cancel_requested, given.parks::jsonb ->> 0 as signal,
        case when coalesce((job.meta ->> 'steps'::text)::bigint, 0) <> (given.parks::jsonb ->> 1)::bigint then clock_timestamp()
             when given.delay < 'infinity' then clock_timestamp() + make_interval(secs => given.delay) end as due
    from fastq.job
    join given on job.id = given.id and job.claim = given.claim
    where job.state = 'running'
    for update of job
), parked as (
    update fastq.job
    set state = (case when due is null then 'waiting' else 'scheduled' end)::fastq.state,
        seq = null,
        scheduled_at = due,
        attempt = attempt - 1,
        claim = null,
        waits_for = case when due is null then 'signal:' || signal end,
        meta = case when due is null then job.meta
            else coalesce(job.meta, '{}') || jsonb_build_object('parked', jsonb_build_array(signal, extract(epoch from due))) end
    from mine
    where job.id = mine.id and not mine.cancel_requested
    returning job.id, job.meta, not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order') as leaves,
        case when due is null then null else '@due' end as wake
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
    where job = any (array(select id from (select id, meta from parked where leaves union all select id, meta from cancelled) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, 'cancelled'
    from cancelled where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select pg_notify($5::text, wake)
    from (select wake from parked where wake is not null union select '@gate' from freed union select '@workflow' from noted) as hint where $5::text is not null
)
select (select count(*) from parked) + (select count(*) from archived), (select count(*) from woken)
