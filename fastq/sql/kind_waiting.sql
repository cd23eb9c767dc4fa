-- what: the kinds with jobs that wait for a worker, by queue, $2 at most: how many jobs ($1 at most of each; with many kinds less: $3
--       over all of them, and 100 at least), whether a living process works the queue and has a worker for the kind, and the number at
--       which the count stops. A process of a program that announces no kinds may have any. Of a paused kind also since when, until
--       when and why.
-- called by: admin/queues, lead/chores/unworked: to list them, and to warn of those that no process knows.
-- index: job_waiting, skipped from reason to reason; process has as many rows as there are worker processes.
-- locks: none.
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
), waiting as materialized (
    select queue, waits_for, substr(waits_for, 8) as kind from every where starts_with(waits_for, 'worker:') limit $2::bigint
), bound (most) as materialized (
    select greatest(least(100, $1::bigint), least($1::bigint, $3::bigint / greatest(1, count(*)))) from waiting
)
select waiting.queue::text, waiting.kind, counted.jobs, exists (
    select from fastq.process
    where process.expires_at > clock_timestamp() and waiting.queue = any (string_to_array(process.queues, ','))
      and (process.kinds is null or waiting.kind = any (process.kinds))
) as known,
    pause.paused_at, pause.paused_until, pause.reason, bound.most as counted_to
from waiting
cross join bound
left join fastq.pause on pause.sort = 'kind' and pause.name = split_part(waiting.kind, '@', 1)
cross join lateral (
    select count(*) as jobs
    from (
        select from fastq.job where job.queue = waiting.queue and job.waits_for = waiting.waits_for 
        order by job.queue, job.waits_for, job.priority, job.id limit (select most from bound)
    ) as sample
) as counted
order by 1, 2
