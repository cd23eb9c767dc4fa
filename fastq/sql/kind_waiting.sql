-- what: the kinds whose jobs wait for a worker, by queue, $2 at most: how many jobs ($1 at most of each), and whether a living process works the
--       queue and has a worker for the kind. One whose program is older than the announcement of kinds may have any.
-- called by: admin, chores/unworked: to list them, and to tell of those that nobody knows.
-- index: job_waiting, skipped from kind to kind; process has as many rows as there are worker processes.
-- locks: none.
with recursive waiting (queue, kind) as (
    (select queue, kind from fastq.job where waits_for = 'worker' order by queue, kind limit 1)
    union all
    select next.queue, next.kind
    from waiting
    cross join lateral (
        select queue, kind from fastq.job
        where waits_for = 'worker' and (queue, kind) > (waiting.queue, waiting.kind)
        order by queue, kind
        limit 1
    ) as next
)
select waiting.queue::text, waiting.kind::text, counted.jobs, exists (
    select from fastq.process
    where process.expires_at > clock_timestamp() and waiting.queue = any (string_to_array(process.queues, ','))
      and (process.kinds is null or waiting.kind = any (process.kinds))
)
from (select queue, kind from waiting limit $2::bigint) as waiting
cross join lateral (
    select count(*) as jobs
    from (select from fastq.job where job.queue = waiting.queue and job.kind = waiting.kind and waits_for = 'worker' limit $1::bigint) as sample
) as counted
order by 1, 2
