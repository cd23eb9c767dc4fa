-- what: has running jobs wait at gates that they did not go through: whoever enqueued them did not know of these. The attempt does
--       not count. A job with a cancellation asked for ends cancelled. Answers with the number of rows that were still ours.
-- called by: work/complete/writes. Arrays of one length: $1 ids, $2 claims, $3 gates. $4 channel (null: no hint).
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[]) as given (id, claim, gates)
), mine as (
    select job.id, job.cancel_requested, given.gates
    from fastq.job
    join given on job.id = given.id and job.claim = given.claim
    where job.state = 'running'
    for update of job
), barred as (
    update fastq.job
    set state = 'waiting', seq = null, attempt = attempt - 1, claim = null,
        meta = coalesce(meta, '{}') || jsonb_build_object('gates', mine.gates),
        waits_for = mine.gates
    from mine
    where job.id = mine.id and not mine.cancel_requested
    returning job.id, job.queue, job.priority, job.waits_for
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
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from barred where waits_for is not null group by queue, waits_for, priority
    returning id
), woken as (
    select pg_notify($4::text, wake)
    from (select '@gate' as wake from told union select '@gate' from arrived union select '@workflow' from noted) as hint where $4::text is not null
)
select (select count(*) from barred) + (select count(*) from archived), (select count(*) from woken)
