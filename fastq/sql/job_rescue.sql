-- what: gives back those of the jobs $6 that are still in the claim ($7) and attempt ($8) given, if their process shows no life.
--       The attempt counts; the last one ends the job (discarded), and so does a cancellation that was asked for (cancelled, be
--       it the last attempt or not). Nobody knows any more which jobs had started: a last attempt may have, so the job does not
--       get one more than it was allowed to have.
--       Answers with how many are available again, how many ended, and which. Errors of a job are shortened as in job_retry.
--       The permit of a discarded job stays where a gate of it says so (args/gates.py: Ordered): it holds its keys.
-- called by: lead/rescue/rescue. $1-$3 fence, $4 queues (null or empty: every queue), $5 domain: queues of its processes count
--            too, $9 channel (null: no hint), $10 error (json text).
-- index: job_pkey; process_pkey; lease_pkey; gate_permit_pkey.
-- locks: the lease's row, for key share; the jobs' rows; locked ones are skipped and come next time.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), mine as (
    select job.id, job.claim, job.attempt, job.cancel_requested, job.attempt >= job.max_attempts as ends
    from unnest($6::bigint[], $7::bigint[], $8::smallint[]) as given (id, claim, attempt)
    join fastq.job on job.id = given.id
    where exists (select from held) and job.state = 'running' and job.id = any ($6::bigint[])
      and coalesce(job.claim, 0) = coalesce(given.claim, 0) and job.attempt = given.attempt
      and not exists (select from fastq.process where process.id = (job.claim >> 32) and process.expires_at >= clock_timestamp())
      and (coalesce(cardinality($4::text[]), 0) = 0 or job.queue = any ($4::text[]) or job.queue in (
          select unnest(string_to_array(process.queues, ',')) from fastq.process where process.domain = $5::text))
    for update of job skip locked
), again as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), claim = null, errors =
        case when coalesce(jsonb_array_length(job.errors), 0) < 25 then coalesce(job.errors, '[]')
             else jsonb_set(jsonb_path_query_array(job.errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                 to_jsonb(coalesce((job.errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(job.errors) - 24)) end
        || jsonb_build_array($10::jsonb || jsonb_build_object('attempt', job.attempt, 'at', job.attempted_at))
    from mine
    where job.id = mine.id and coalesce(job.claim, 0) = coalesce(mine.claim, 0) and job.attempt = mine.attempt
      and not mine.ends and not mine.cancel_requested
    returning job.id, job.queue
), ended as (
    delete from fastq.job using mine
    where job.id = mine.id and coalesce(job.claim, 0) = coalesce(mine.claim, 0) and job.attempt = mine.attempt
      and (mine.ends or mine.cancel_requested)
    returning job.*
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), (case when cancel_requested then 'cancelled' else 'discarded' end)::fastq.state,
        priority, attempt, max_attempts, crashes, queue, kind, args, tags,
        case when coalesce(jsonb_array_length(errors), 0) < 25 then coalesce(errors, '[]')
             else jsonb_set(jsonb_path_query_array(errors, '$[0 to 9, last - 13 to last]'), '{10,left_out}',
                 to_jsonb(coalesce((errors #>> '{10,left_out}')::int, 0) + jsonb_array_length(errors) - 24)) end
        || jsonb_build_array($10::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)),
        coalesce(meta, '{}') || jsonb_build_object('cause', case when cancel_requested then 'asked' else 'lost' end)
    from ended
    returning id, kind, attempt, state
), died as (
    insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
    select id, now(), priority, max_attempts, queue, kind, 'lost', args, tags, left(coalesce($10::jsonb ->> 'error'::text, ''), 1000), meta
    from ended where not cancel_requested
    on conflict do nothing
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from ended where cancel_requested or not starts_with(coalesce(meta ->> 'gates'::text, ''), '[["order-hold"')) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, (case when cancel_requested then 'cancelled' else 'discarded' end)::fastq.state
    from ended where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select pg_notify($9::text, wake) from (select queue as wake from again union select '@gate' from freed union select '@workflow' from noted) as hint where $9::text is not null
)
select (select count(*) from held), (select count(*) from again), (select count(*) from archived), (select count(*) from woken),
    (select json_agg(json_build_array(state, id, kind, attempt)) from archived)
