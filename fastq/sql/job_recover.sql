-- what: gives back the jobs of a dead process of this host: the jobs $1, and those of its unanswered claim ($2, after seq $3 in
--       queue $4).
--       - Jobs in $5 were executing. Their attempt counts, and a last attempt ends the job. One of them may have caused the death:
--         those that were executing at an earlier death too are suspects; if there are none, all are. A single suspect is discarded
--         after $6 crashes. Several suspects never are: they come back apart, at random times, so that the one that kills is alone
--         some day, and its neighbours live.
--       - Jobs in $10 had ended, as far as is known, but were not written. They are judged like those in $5, but a first death
--         ends none of them: a job in its last attempt gets that attempt once more, apart from the others.
--       - All others had not started (or had ended unseen): their attempt does not count.
--       - A job with a cancellation asked for ends as cancelled, before any other reason to end.
--       Answers with how many are available again, how many ended, and which. Errors of a job are shortened as in job_retry.
--       A suspect carries a note in its meta: the attempt in which the application's handler of crashes is asked, and the cause.
--       The permit of a discarded job stays where a gate of it says so (args/gates.py: Ordered): it holds its keys.
-- called by: host/recovery: when a child has died and its database sessions have ended. $7 process, $8 channel (null: no hint),
--            $9 error (json text), $11 error of a job in $10.
-- index: job_pkey for the ids; job_ready for the unanswered claim; gate_permit_pkey.
-- locks: the rows, in the order of their ids.
with lost as (
    select id from fastq.job
    where id = any ($1::bigint[]) and state = 'running' and claim >> 32 = $7::bigint
    union all
    select id from fastq.job
    where queue = $4::text and priority >= 1 and priority <= 4 and seq > $3::bigint and state = 'running' and claim = $2::bigint
), mine as (
    select job.id, job.id = any ($5::bigint[]) as executing,
        job.id = any ($10::bigint[]) and job.id <> all ($5::bigint[]) as had_ended, job.crashes as earlier, job.attempt >= job.max_attempts as last, job.cancel_requested as cancelled
    from fastq.job where id in (select id from lost) and state = 'running' and claim >> 32 = $7::bigint
    order by job.id
    for update
), counted as (
    select *, executing or had_ended as ran, had_ended and last and earlier = 0 as spared,
        count(*) filter (where (executing or had_ended) and earlier > 0) over () as suspects
    from mine
), judged as (
    select *,
        ran and (earlier > 0 or suspects = 0) or spared as blamed,
        ran and earlier > 0 and suspects > 1 or spared as apart,
        (executing or earlier > 0)
            and (ran and last or ran and suspects <= 1 and (earlier > 0 or suspects = 0) and earlier + 1 >= $6::int) as ends,
        case when had_ended then $11::jsonb else $9::jsonb end as error
    from counted
), again as (
    update fastq.job
    set state = (case when apart then 'retryable' else 'available' end)::fastq.state,
        seq = case when not apart then nextval('fastq.job_seq') end,
        scheduled_at = case when apart then clock_timestamp() + make_interval(secs => random() * least(attempt::float8 ^ 2, 600)) end,
        claim = null,
        attempt = attempt - (not ran or spared)::int::smallint,
        crashes = case when apart then least(crashes + 1, greatest($6::int - 1, 1)) else crashes + blamed::int end,
        meta = case when not blamed and not apart then meta else coalesce(meta, '{}') || jsonb_build_object('crashed', jsonb_build_object(
            'next', attempt + 1 - spared::int, 'at', clock_timestamp(), 'crashes', crashes + 1, 'cause', coalesce(error ->> 'died'::text, ''))) end,
        errors = case when not ran then errors else
            case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
                 else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                     to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
            || jsonb_build_array(error::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)) end
    from judged
    where job.id = judged.id and not ends and not cancelled
    returning job.id, job.meta, apart and not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order') as leaves,
        case when apart then '@due' else queue end as wake
), ended as (
    delete from fastq.job using judged
    where job.id = judged.id and (ends or cancelled)
    returning job.*, judged.blamed, judged.error
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), (case when cancel_requested then 'cancelled' else 'discarded' end)::fastq.state,
        priority, attempt, max_attempts, crashes + blamed::int, queue, kind, args, tags,
        case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
             else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                 to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
        || jsonb_build_array(error::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)),
        coalesce(meta, '{}') || jsonb_build_object('cause', case when cancel_requested then 'asked' else 'crashed' end)
    from ended
    returning id, kind, attempt, state
), died as (
    insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
    select id, now(), priority, max_attempts, queue, kind, 'crashed', args, tags, left(coalesce(error::jsonb ->> 'error'::text, ''), 1000), meta
    from ended where not cancel_requested
    on conflict do nothing
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from again where leaves union all select id, meta from ended where cancel_requested or not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order-hold"')) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, (case when cancel_requested then 'cancelled' else 'discarded' end)::fastq.state
    from ended where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select pg_notify($8::text, wake) from (select wake from again union select '@gate' from freed union select '@workflow' from noted) as hint where $8::text is not null
)
select (select count(*) from again), (select count(*) from archived), (select count(*) from woken),
    (select json_agg(json_build_array(state, id, kind, attempt)) from archived)
