-- what: lets the jobs of up to $4 steps of the workflows $6 go whose edges are met, and cancels those whose parents have failed (cause
--       'parent'). A job that waits no more is left as it is: somebody was faster. Answers with how many were looked at, and let go; with the cancelled
--       ones, as JSON: workflow, how many; and with the workflows of steps that stay for the next time, since somebody has locked their rows.
-- called by: lead/workflow/steward. $1-$3 fence, $5 channel (null: no hint).
-- index: lease_pkey; workflow_step_fate; job_pkey.
-- locks: the lease's row, for key share; the steps' rows and the jobs' rows; locked ones are skipped, and tried again.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), ready as materialized (
    select step.workflow, step.step, step.job, step.fate, step.delay, step.at, step.because
    from fastq.workflow_step as step
    where exists (select from held) and step.fate is not null and step.workflow = any ($6::bigint[])
    order by step.workflow, step.step
    limit $4::bigint
    for no key update skip locked
), mine as materialized (
    select job.id, ready.workflow, ready.step, ready.fate, ready.because, job.meta ->> 'gates'::text as gates,
        job.state = 'waiting' and job.waits_for = 'workflow' as waits,
        coalesce(ready.at, clock_timestamp() + make_interval(secs => ready.delay)) as due
    from ready
    join fastq.job on job.id = ready.job
    for update of job skip locked
), gone as (
    update fastq.job
    set state = (case when due > clock_timestamp() then 'scheduled' when gates is not null then 'waiting' else 'available' end)::fastq.state,
        seq = case when coalesce(due <= clock_timestamp(), true) and gates is null then nextval('fastq.job_seq') end,
        scheduled_at = case when due > clock_timestamp() then due end,
        waits_for = case when coalesce(due <= clock_timestamp(), true) then gates end
    from mine
    where job.id = mine.id and mine.waits and mine.fate = 'go'
    returning job.id, job.queue, job.priority, job.waits_for, job.scheduled_at
), cancelled as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.waits and mine.fate = 'cancel'
    returning job.*, mine.because, mine.workflow
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, meta)
    select id, created_at, attempted_at, now(), 'cancelled', priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors, coalesce(meta, '{}') || jsonb_build_object('cause', 'parent', 'because', because)
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
    select queue, waits_for, count(*), priority, min(id) from gone where waits_for is not null group by queue, waits_for, priority
    returning id
), settled as (
    update fastq.workflow_step as step
    set fate = null
    from ready
    where step.workflow = ready.workflow and step.step = ready.step
      and (exists (select from mine where mine.id = ready.job) or not exists (select from fastq.job where job.id = ready.job))
    returning step.workflow, step.step
), woken as (
    select count(pg_notify($5::text, wake)) as hints
    from (
        select case when scheduled_at is not null then '@due' when waits_for is not null then '@gate' else queue end as wake from gone
        union
        select '@gate' from freed
    ) as hint
    where $5::text is not null
)
select (select count(*) from held), (select count(*) from ready), (select count(*) from gone),
    (select json_agg(json_build_array(workflow, steps))::text from (select workflow, count(*) as steps from cancelled group by workflow) as each),
    (select coalesce(array_agg(distinct workflow), '{}') from ready where not exists (
        select from settled where settled.workflow = ready.workflow and settled.step = ready.step)),
    (select hints from woken)
