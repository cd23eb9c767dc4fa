-- what: gives running jobs back to be run again: failed, snoozed, handed back, or to wait for a worker of their kind. A job with
--       a cancellation asked for ends cancelled. A job that waits for a worker says its kind, and the version of its args if it has one
--       (args/versions/names.py): "worker:mail@3".
--       Of a job's errors the first 10 and the last 15 stay, so that the next attempt costs no more than this one however many
--       there were: 25 is the default of max_attempts. The error behind the gap says in left_out how many were dropped. All
--       statements that write an error do it in these words, which tests/db/test_job_errors.py compares.
--       Each row is changed at once, without being locked first: that is a fifth of the time. So a row that somebody else has changed since
--       the statement began may be left as it is, and the answer is less by it: the writer sends the statement once more then.
-- called by: work/complete/writes. Arrays of one length: $1 ids, $2 claims, $3 delays in seconds (<= 0: at once; infinity:
--            until a process has a worker for the kind), $4 charged (false: the
--            attempt does not count), $5 errors (json text or null). $6 channel (null: no hint). Answers with the number of rows
--            that were still ours.
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::float8[], $4::boolean[], $5::text[])
        as given (id, claim, delay, charged, error)
), again as (
    update fastq.job
    set state = (case when delay <= 0 then 'available' when delay = 'infinity' then 'waiting' when charged then 'retryable' else 'scheduled' end)::fastq.state,
        seq = case when delay <= 0 then nextval('fastq.job_seq') end,
        scheduled_at = case when delay > 0 and delay < 'infinity' then clock_timestamp() + make_interval(secs => delay) end,
        attempt = attempt - (not charged)::int::smallint,
        claim = null,
        waits_for = case when delay = 'infinity' then 'worker:' || kind || coalesce('@' || (meta ->> 'version'::text), '') end,
        errors = case when error is null then errors else
            case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
                 else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                     to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
            || jsonb_build_array(error::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)) end
    from given
    where job.id = given.id and job.claim = given.claim and job.state = 'running' and not job.cancel_requested
    returning job.id, job.meta, delay > 0 and delay < 'infinity' and not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order') as leaves,
        case when delay <= 0 then queue when delay = 'infinity' then '@waiting ' || queue else '@due' end as wake
), cancelled as (
    delete from fastq.job using given
    where job.id = given.id and job.claim = given.claim and job.state = 'running' and job.cancel_requested
    returning job.*, case when error is null then errors else
            case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
                 else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                     to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
            || jsonb_build_array(error::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)) end as all_errors
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
