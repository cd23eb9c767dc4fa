-- what: the workflows of up to $2 steps of which the jobs are to be let go or cancelled, but for the workflows in $1.
-- called by: lead/workflow/steward: now and then; it knows those by itself that it has decided over.
-- index: workflow_step_fate.
-- locks: none.
select coalesce(array_agg(distinct workflow), '{}')
from (
    select workflow from fastq.workflow_step
    where fate is not null and workflow <> all ($1::bigint[])
    order by workflow, step
    limit $2::bigint
) as found
