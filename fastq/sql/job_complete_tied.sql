-- what: like job_complete for jobs whose end is waited for: it is told to the gatekeeper where they went through gates, and to the
--       chore that leads workflows on where they are steps. Answers with the number of rows that were still ours.
-- called by: work/complete/writes: for plain successes without archive. $1 ids bigint[], $2 claims bigint[] (each claim once),
--            $3 channel (null: no hint).
-- index: job_pkey; gate_permit_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with done as (
    delete from fastq.job
    where id = any ($1::bigint[]) and claim = any ($2::bigint[]) and state = 'running'
    returning id, meta
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from done where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, 'completed'
    from done where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select pg_notify($3::text, wake) from (select '@gate' as wake from freed union select '@workflow' from noted) as hint where $3::text is not null
)
select (select count(*) from done), (select count(*) from woken)
