-- what: how far a workflow is: one row, or none if there is none. $1 id.
-- called by: enqueue/workflows, enqueue/workflows_async: workflow, wait_for_workflow.
-- index: workflow_pkey.
-- locks: none.
select id, name, steps, completed, cancelled, discarded, created_at, cancelled_at, ended_at
from fastq.workflow
where id = $1::bigint
