-- what: ends jobs for want of time, each with a cause of its own: those whose turn came too late, of which no attempt counts, and
--       those whose attempt has failed and whose next one would come too late. Answers with the number of rows that were still
--       ours. Errors of a job are shortened as in job_retry.
--       The permit of a discarded job stays where a gate of it says so (args/gates.py: Ordered): it holds its keys.
-- called by: work/complete/writes. Arrays of one length: $1 ids, $2 claims, $3 states (as text: its type has the same oid
--            everywhere), $4 errors (json text or null), $5 causes, $6 charged (false: the attempt does not count). $7 channel (null:
--            no hint).
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[]::fastq.state[], $4::text[], $5::text[], $6::boolean[])
        as given (id, claim, state, error, cause, charged)
), done as (
    delete from fastq.job
    using given
    where job.id = given.id and job.claim = given.claim and job.state = 'running'
    returning job.id, job.created_at, job.attempted_at, job.priority, job.attempt - (not given.charged)::int::smallint as attempt, job.max_attempts,
        job.crashes, job.queue, job.kind, job.args, job.tags, job.errors, job.meta, given.state as final, given.error, given.cause
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), final, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags,
        case when error is null then errors else
            case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
                 else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                     to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
            || jsonb_build_array(error::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)) end,
        coalesce(meta, '{}') || jsonb_build_object('cause', cause)
    from done
    returning id
), died as (
    insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
    select id, now(), priority, max_attempts, queue, kind, cause, args, tags, left(coalesce(error::jsonb ->> 'error'::text, errors -> -1 ->> 'error'::text, ''), 1000), meta
    from done where final = 'discarded'
    on conflict do nothing
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from done where final <> 'discarded' or not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order-hold"')) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, final
    from done where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select pg_notify($7::text, wake) from (select '@gate' as wake from freed union select '@workflow' from noted) as hint where $7::text is not null
)
select (select count(*) from archived), (select count(*) from woken)
