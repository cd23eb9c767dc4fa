-- what: the newest workflows below an id, in the columns of workflow_show. $1 id, $2 state (null: any), $3 how many.
-- called by: enqueue/workflows, enqueue/workflows_async: workflows.
-- index: workflow_pkey, backwards; those of another state are passed over.
-- locks: none.
select id, name, steps, completed, cancelled, discarded, created_at, cancelled_at, ended_at
from fastq.workflow
where id < $1::bigint and ($2::text is null or $2::text = case
    when ended_at is null then 'running' when discarded > 0 then 'discarded' when cancelled > 0 then 'cancelled' else 'completed' end)
order by id desc
limit $3::bigint
