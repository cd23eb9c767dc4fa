-- what: cancels a workflow: moves its jobs that have not started to the archive, and asks for the end of the running ones. No step
--       is added to it any more. Answers with how many jobs were cancelled, and how many were asked.
-- called by: enqueue/flows: cancel_workflow, in the transaction that has locked the workflow. $1 id, $2 channel (null: no hint).
-- index: workflow_step_pkey; job_pkey; gate_permit_pkey; workflow_pkey.
-- locks: the living rows, in the order of their ids.
with mine as (
    select id, state from fastq.job
    where id = any (array(select job from fastq.workflow_step where workflow = $1::bigint))  -- also one that was run again by hand
    order by id
    for update
), moved as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.state <> 'running'
    returning job.*
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), 'cancelled', priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, coalesce(meta, '{}') || '{"cause": "asked"}'::jsonb
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
), asked as (
    update fastq.job set cancel_requested = true
    from mine
    where job.id = mine.id and mine.state = 'running'
    returning job.id
), closed as (
    update fastq.workflow set cancelled_at = coalesce(cancelled_at, clock_timestamp()) where id = $1::bigint
), woken as (
    select count(pg_notify($2::text, wake)) as hints
    from (select '@cancel' as wake from asked union select '@gate' from freed union select '@workflow' from noted) as hint where $2::text is not null
)
select (select count(*) from archived), (select count(*) from asked), (select hints from woken)
