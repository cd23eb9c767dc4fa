-- what: the edges from steps to those after them, and on from steps that are to be cancelled for it, as JSON: workflow, parent, child,
--       whether the child runs however the parent ends, its name, its job, its unmet edges, whether its job waits.
-- called by: lead/workflow/steward: in the transaction that has locked the workflows. Arrays of one length: $1 workflows, $2 steps, $3 whether they have failed.
-- index: workflow_edge_pkey; workflow_step_pkey; job_pkey.
-- locks: none.
with recursive reach (workflow, step, fails) as (
    select workflow, step, fails from unnest($1::bigint[], $2::int[], $3::boolean[]) as given (workflow, step, fails)
    union
    select edge.workflow, edge.child, true
    from reach
    join fastq.workflow_edge as edge on edge.workflow = reach.workflow and edge.parent = reach.step
    cross join lateral (
        select * from fastq.workflow_step where workflow_step.workflow = edge.workflow and workflow_step.step = edge.child offset 0
    ) as step
    where reach.fails and not edge.run and step.state is null and step.fate is null
      and exists (select from fastq.job where job.id = step.job and job.state = 'waiting' and job.waits_for = 'workflow')
)
select json_agg(json_build_array(
    edge.workflow, edge.parent, edge.child, edge.run, coalesce(step.name, step.step::text), step.job, step.unmet,
    step.state is null and step.fate is null
        and exists (select from fastq.job where job.id = step.job and job.state = 'waiting' and job.waits_for = 'workflow')
) order by edge.workflow, edge.parent, edge.child)::text
from (select distinct workflow, step from reach) as parent
join fastq.workflow_edge as edge on edge.workflow = parent.workflow and edge.parent = parent.step
cross join lateral (
    select * from fastq.workflow_step where workflow_step.workflow = edge.workflow and workflow_step.step = edge.child offset 0
) as step
