-- what: the steps that a step of a workflow runs after: name or number, job, state (null: it has not ended), output as JSON text. $1 workflow, $2 step.
-- called by: enqueue/workflows, enqueue/workflows_async: deps.
-- index: workflow_edge_child; workflow_step_pkey.
-- locks: none.
select coalesce(parent.name, parent.step::text), parent.job, parent.state::text, parent.output::text
from fastq.workflow_edge as edge
join fastq.workflow_step as parent on parent.workflow = edge.workflow and parent.step = edge.parent
where edge.workflow = $1::bigint and edge.child = $2::int
order by edge.parent
