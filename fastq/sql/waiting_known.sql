-- what: the ids and queues of up to $2 jobs that wait for a worker, but would not be put back to waiting if they were available.
--       That is so if the queue has living processes and each may have a worker for the kind; or if one of them is of a program
--       that announces no kinds, which claims available jobs alone. Without the jobs in $3, and those of paused kinds.
-- called by: lead/chores/admit. $1 queues (null or empty: every queue).
-- index: job_waiting, skipped from reason to reason, then a range of each; process has as many rows as there are worker
--        processes.
-- locks: none; job_admit looks again.
with recursive every (queue, waits_for) as (
    (select queue, waits_for from fastq.job where waits_for is not null order by queue, waits_for limit 1)
    union all
    select next.queue, next.waits_for
    from every
    cross join lateral (
        select queue, waits_for from fastq.job
        where waits_for is not null and (queue, waits_for) > (every.queue, greatest(every.waits_for, 'worker:'))
        order by queue, waits_for
        limit 1
    ) as next
), living as materialized (
    select string_to_array(queues, ',') as queues, kinds from fastq.process
    where expires_at > clock_timestamp() and coalesce(cardinality(kinds), 1) > 0
), free as materialized (
    select waiting.queue, waiting.waits_for
    from (select queue, waits_for, substr(waits_for, 8) as kind from every where starts_with(waits_for, 'worker:')) as waiting
    join living on waiting.queue::text = any (living.queues)
    where coalesce(cardinality($1::text[]), 0) = 0 or waiting.queue::text = any ($1::text[])
    group by waiting.queue, waiting.waits_for, waiting.kind
    having not exists (select from fastq.pause where pause.sort = 'kind' and pause.name = split_part(waiting.kind, '@', 1))
       and bool_or(living.kinds is null or waiting.kind = any (living.kinds))
       and (bool_or(living.kinds is null) or bool_and(waiting.kind = any (living.kinds)))
)
select coalesce(array_agg(pick.id), '{}'), coalesce(array_agg(pick.queue), '{}')
from (
    select found.id, free.queue::text as queue
    from free
    cross join lateral (
        select id from fastq.job
        where job.queue = free.queue and job.waits_for = free.waits_for and not id in (select unnest($3::bigint[]))
        order by priority, id
        limit $2::bigint
    ) as found
    limit $2::bigint
) as pick
