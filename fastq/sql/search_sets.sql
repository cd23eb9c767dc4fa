-- what: the ids of the jobs that come into question for a filter, up to $6: if $1 is 'workflow', the steps of the workflow $2; if 'unique', the
--       holders of the keys from $2 to $3 (hexadecimal); if 'waiting', the jobs that wait for no time; if 'due', those that wait for a
--       time from $4 to $5. Says how many these are, and the ids, joined by commas.
-- called by: admin/search/routes: where they are fewer than $6, none else can fit.
-- index: workflow_step_pkey; unique_key_pkey; job_waiting; job_due.
-- locks: none.
select count(*), coalesce(string_agg(id::text, ','), '')
from (
    (select job as id from fastq.workflow_step where $1::text = 'workflow' and workflow = $2::text::bigint order by workflow, step limit $6::bigint)
    union all
    (select job_id from fastq.unique_key
    where $1::text = 'unique' and key >= decode($2::text, 'hex') and key <= decode($3::text, 'hex') order by key limit $6::bigint)
    union all
    (select id from fastq.job where $1::text = 'waiting' and waits_for is not null order by queue, waits_for, priority, id limit $6::bigint)
    union all
    (select id from fastq.job
    where $1::text = 'due' and scheduled_at is not null
      and scheduled_at >= $4::text::timestamptz and scheduled_at <= $5::text::timestamptz
    order by queue, scheduled_at limit $6::bigint)
) as found
