-- what: looks at up to $6 steps of open workflows behind the step given, and repairs those that would wait for ever: a job that is gone without
--       a word gets its event, with the state that the archive has, else cancelled; a wrong count of unmet edges is corrected; a job whose edges
--       are met is let go, and one behind a failed step cancelled. Answers with the last step looked at, how many it looked at, and the
--       repaired ones, as JSON: workflow, step, job. There must be none.
-- called by: lead/workflow/steward: now and then. $1-$3 fence, $4 workflow and $5 step: where the last look ended.
-- index: lease_pkey; workflow_open; workflow_step_pkey; workflow_edge_child; job_pkey; workflow_event_of.
-- locks: the lease's row, for key share; the steps that are repaired.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select step.workflow, step.step, step.job, step.unmet, step.state, step.fate
    from (
        select id from fastq.workflow
        where exists (select from held) and ended_at is null and id >= $4::bigint
        order by id
        limit $6::bigint
    ) as open
    cross join lateral (
        select * from fastq.workflow_step
        where workflow_step.workflow = open.id and (workflow_step.workflow > $4::bigint or workflow_step.step > $5::int)
        order by step
        limit $6::bigint
    ) as step
    order by step.workflow, step.step
    limit $6::bigint
), counted as materialized (
    select looked.*, job.id is not null as lives, coalesce(job.state = 'waiting' and job.waits_for = 'workflow', false) as waits, edges.unmet as counted, edges.failed
    from looked
    left join fastq.job on job.id = looked.job
    cross join lateral (
        select (count(*) filter (where not parent.passed))::int as unmet,
            coalesce(bool_or(parent.passed and not edge.run and parent.state <> 'completed'), false) as failed
        from fastq.workflow_edge as edge
        join fastq.workflow_step as parent on parent.workflow = edge.workflow and parent.step = edge.parent
        where edge.workflow = looked.workflow and edge.child = looked.step
    ) as edges
), lost as materialized (
    select workflow, step, job from counted
    where state is null and not lives
      and not exists (select from fastq.workflow_event where workflow_event.workflow = counted.workflow and workflow_event.step = counted.step)
), noted_lost as (
    insert into fastq.workflow_event (workflow, step, state)
    select workflow, step, coalesce((select max(state::text) from fastq.job_archive where job_archive.id = lost.job)::fastq.state, 'cancelled') from lost
    returning id
), wrong as materialized (
    select workflow, step, job, unmet, counted,
        case when state is null and fate is null and waits then case when failed then 'cancel' when counted = 0 then 'go' end end as fate
    from counted
    where unmet <> counted or state is null and fate is null and waits and (failed or counted = 0)
), repaired as (
    update fastq.workflow_step as step
    set unmet = wrong.counted, fate = coalesce(step.fate, wrong.fate)
    from wrong
    where step.workflow = wrong.workflow and step.step = wrong.step and step.unmet = wrong.unmet
    returning step.workflow, step.step, step.job
)
select (select count(*) from held), coalesce((select max(workflow) from looked), 0),
    coalesce((select max(step) from looked where workflow = (select max(workflow) from looked)), 0), (select count(*) from looked),
    (select json_agg(json_build_array(workflow, step, job))::text
     from (select workflow, step, job from lost union all select workflow, step, job from repaired) as found)
