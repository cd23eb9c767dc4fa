-- what: the steps of a workflow in their order, with the states of their jobs, and the edges to each as JSON: parent, whether it runs however that
--       ends. $1 id, $2 from which step on, $3 how many.
-- called by: enqueue/workflows, enqueue/workflows_async: workflow_steps.
-- index: workflow_step_pkey; workflow_edge_child; job_pkey.
-- locks: none.
select step.step, step.name, step.kind, step.job, coalesce(step.state, job.state)::text as state,
    (select json_agg(json_build_array(edge.parent, edge.run) order by edge.parent)::text from fastq.workflow_edge as edge
     where edge.workflow = step.workflow and edge.child = step.step) as after, step.because::text as because
from fastq.workflow_step as step
left join fastq.job on job.id = step.job
where step.workflow = $1::bigint and step.step >= $2::int
order by step.step
limit $3::bigint
