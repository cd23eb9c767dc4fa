-- what: runs the steps of a workflow once more that have failed: those that were discarded, or cancelled by somebody; with $2 also those
--       that were cancelled because of them. Their jobs come back from the archive with their ids and one more attempt, without the times after
--       which they expired, and wait for the
--       steps before them; the leader's chore lets those go that wait for none. A discarded one that held its keys gives them up; if it
--       waits for no step, it comes to its gates first, ahead of the jobs behind it. Answers with their number.
-- called by: enqueue/flows: retry_workflow, in the transaction that has locked the workflow. $1 id, $3 channel (null: no hint).
-- index: workflow_step_pkey; workflow_edge_pkey; workflow_edge_child; job_archive_id (block ranges); workflow_pkey; workflow_event_of; gate_permit_pkey.
-- locks: the rows of the archive; the steps; the permits.
with failed as materialized (
    select step, job from fastq.workflow_step
    where workflow = $1::bigint and state = any ('{cancelled,discarded}'::fastq.state[]) and (because is null or $2::boolean)
), taken as (
    delete from fastq.job_archive
    where id >= (select min(job) from failed) and id <= (select max(job) from failed) and id in (select job from failed)
    returning *
), raised as (
    delete from fastq.dead where id = any (array(select id from taken))
), again as materialized (
    select failed.step, failed.job from failed join taken on taken.id = failed.job
), forgotten as (
    -- The ends that are not taken yet, of a run by hand in between: they are of the past.
    delete from fastq.workflow_event where workflow = $1::bigint and step in (select step from again)
), unmet as materialized (
    -- As many edges as come from steps that are not passed, or are so no longer.
    select step.step, step.step in (select step from again) as runs, (
        select count(*)
        from fastq.workflow_edge as edge
        join fastq.workflow_step as parent on parent.workflow = edge.workflow and parent.step = edge.parent
        where edge.workflow = $1::bigint and edge.child = step.step and (not parent.passed or parent.step in (select step from again))
    )::int as edges
    from fastq.workflow_step as step
    where step.workflow = $1::bigint and (
        step.step in (select step from again)
        or step.step in (select child from fastq.workflow_edge where workflow_edge.workflow = $1::bigint and parent in (select step from again)))
), revived as (
    -- Below the largest smallint by one: the claim adds one, and must never fail.
    insert into fastq.job (id, created_at, attempted_at, state, priority, attempt, max_attempts, crashes, queue, kind, args, tags, errors, meta, seq, waits_for)
    overriding system value
    select id, created_at, attempted_at, 'waiting', priority, least(attempt, 32766), greatest(max_attempts, least(attempt, 32766) + 1), 0,
        queue, kind, args, tags, errors, meta - '{cause,because,expires,deadline}'::text[], null,
        case when edges = 0 and taken.state = 'discarded' and meta ->> 'gates'::text is not null then meta ->> 'gates'::text else 'workflow' end
    from taken
    join (select again.job, unmet.edges from again join unmet on unmet.step = again.step) as placed on placed.job = taken.id
    returning id, queue, priority, waits_for
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from (select * from revived where waits_for <> 'workflow') as come where waits_for is not null group by queue, waits_for, priority
    returning id
), freed as (
    -- A discarded job may have held its keys. It comes to the gates again before it gives them up, and goes first by its id.
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from taken where (select count(*) from arrived) is not null) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), stepped as (
    update fastq.workflow_step as step
    set unmet = unmet.edges,
        state = case when not runs then step.state end,
        passed = not runs and step.passed,
        output = case when not runs then step.output end,
        because = case when not runs then step.because end,
        delay = case when not runs or step.because is not null then step.delay end,
        fate = case when not runs then step.fate when unmet.edges = 0 then 'go' end
    from unmet
    where step.workflow = $1::bigint and step.step = unmet.step
), counted as (
    update fastq.workflow
    set cancelled = workflow.cancelled - change.cancelled, discarded = workflow.discarded - change.discarded,
        ended_at = case when change.jobs = 0 then workflow.ended_at end, cancelled_at = case when change.jobs = 0 then workflow.cancelled_at end
    from (
        select count(*) as jobs, (count(*) filter (where step.state = 'cancelled'))::int as cancelled,
            (count(*) filter (where step.state = 'discarded'))::int as discarded
        from again join fastq.workflow_step as step on step.workflow = $1::bigint and step.step = again.step
    ) as change
    where workflow.id = $1::bigint
), woken as (
    select count(pg_notify($3::text, wake)) as hints
    from (select '@workflow' as wake from again union select '@gate' from arrived union select '@gate' from freed) as hint
    where $3::text is not null
)
select (select count(*) from again), (select hints from woken)
