-- what: gives back running jobs whose own process has died, to be tried again after a while. Each carries a note in its meta, as after
--       job_recover: the attempt in which the application's handler of crashes is asked, the cause, how many crashes there were, and
--       the time. A job with a cancellation asked for ends cancelled. Errors of a job are shortened as in job_retry.
-- called by: work/complete/writes. Arrays of one length: $1 ids, $2 claims, $3 delays in seconds, $4 errors (json text), $5 notes
--            (json text). $6 channel (null: no hint). Answers with the number of rows that were still ours.
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::float8[], $4::text[], $5::text[])
        as given (id, claim, delay, error, note)
), mine as (
    select job.id, job.cancel_requested, given.delay, given.note,
        case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
             else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                 to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
        || jsonb_build_array(error::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)) as errors
    from fastq.job
    join given on job.id = given.id and job.claim = given.claim
    where job.state = 'running'
    for update of job
), again as (
    update fastq.job
    set state = 'retryable', seq = null, scheduled_at = clock_timestamp() + make_interval(secs => delay), claim = null, errors = mine.errors,
        meta = coalesce(meta, '{}') || jsonb_build_object('crashed', note::jsonb || jsonb_build_object('at', clock_timestamp()))
    from mine
    where job.id = mine.id and not mine.cancel_requested
    returning job.id, job.meta, not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order') as leaves, '@due' as wake
), cancelled as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.cancel_requested
    returning job.*, mine.errors as all_errors
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), 'cancelled', priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, all_errors, coalesce(meta, '{}') || '{"cause": "asked"}'::jsonb
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
), woken as (
    select pg_notify($6::text, wake) from (select wake from again union select '@gate' from freed union select '@workflow' from noted) as hint where $6::text is not null
)
select (select count(*) from again) + (select count(*) from archived), (select count(*) from woken)
