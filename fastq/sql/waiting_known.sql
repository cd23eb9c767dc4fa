-- what: the ids and queues of up to $2 jobs that wait for a worker though nobody would put them back to waiting: a living process works their
--       queue and may have a worker for their kind, and each other one of the queue too; or one of them is of a program that announces no
--       kinds, which claims what is available alone. Without those in $3.
-- called by: chores/admit. $1 queues (null or empty: every queue).
-- index: job_waiting, skipped from kind to kind, then a range of each; process has as many rows as there are worker processes.
-- locks: none; job_admit looks again.
with recursive every (queue, kind) as (
    (select queue, kind from fastq.job where waits_for = 'worker' order by queue, kind limit 1)
    union all
    select next.queue, next.kind
    from every
    cross join lateral (
        select queue, kind from fastq.job
        where waits_for = 'worker' and (queue, kind) > (every.queue, every.kind)
        order by queue, kind
        limit 1
    ) as next
), living as materialized (
    select string_to_array(queues, ',') as queues, kinds from fastq.process
    where expires_at > clock_timestamp() and coalesce(cardinality(kinds), 1) > 0
), free as materialized (
    select every.queue, every.kind
    from every
    join living on every.queue::text = any (living.queues)
    where coalesce(cardinality($1::text[]), 0) = 0 or every.queue::text = any ($1::text[])
    group by every.queue, every.kind
    having bool_or(living.kinds is null or every.kind::text = any (living.kinds))
       and (bool_or(living.kinds is null) or bool_and(every.kind::text = any (living.kinds)))
)
select coalesce(array_agg(pick.id), '{}'), coalesce(array_agg(pick.queue), '{}')
from (
    select found.id, free.queue::text as queue
    from free
    cross join lateral (
        select id from fastq.job
        where job.queue = free.queue and job.kind = free.kind and waits_for = 'worker' and not id in (select unnest($3::bigint[]))
        order by priority, id
        limit $2::bigint
    ) as found
    limit $2::bigint
) as pick
