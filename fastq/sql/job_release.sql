-- what: hands back jobs that were claimed and never started: no attempt is charged. They get a new seq (behind the cursor they
--       would be late). A job with a cancellation asked for ends cancelled.
-- called by: work/claim/unanswered, work/complete/hand_back: at a stop with jobs in the inbox; after a claim whose answer never
--            came. $1 ids bigint[], $2 claims bigint[], $3 channel (null: no hint). Answers with the number of rows that were
--            still ours.
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of their ids.
with mine as (
    select id, cancel_requested from fastq.job
    where id = any ($1::bigint[]) and claim = any ($2::bigint[]) and state = 'running'
    order by id
    for update
), released as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), attempt = attempt - 1, claim = null
    from mine
    where job.id = mine.id and not mine.cancel_requested
    returning queue
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
    where job = any (array(select id from cancelled where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, 'cancelled'
    from cancelled where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select pg_notify($3::text, wake) from (select queue as wake from released union select '@gate' from freed union select '@workflow' from noted) as hint where $3::text is not null
)
select (select count(*) from released) + (select count(*) from archived), (select count(*) from woken)
