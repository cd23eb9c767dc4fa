-- what: the queues that have living jobs, with the counts of these by state. Each walk through an index stops after $1 entries, or, where
--       there are many queues, after their share of $2, and 100 at least; the last column says whether one did.
-- called by: admin/statistics/asked: for people. Orders and limits are such that each plan goes by the indexes, whatever the planner knows.
-- index: job_ready, job_due and job_waiting, skipped from queue to queue, then the first entries of each queue.
-- locks: none.
with recursive ready (name) as (
    (select queue from fastq.job where seq is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where seq is not null and queue > ready.name order by queue limit 1)
    from ready where ready.name is not null
), due (name) as (
    (select queue from fastq.job where scheduled_at is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where scheduled_at is not null and queue > due.name order by queue limit 1)
    from due where due.name is not null
), resting (name) as (
    (select queue from fastq.job where waits_for is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where waits_for is not null and queue > resting.name order by queue limit 1)
    from resting where resting.name is not null
), known (name) as materialized (
    select name from ready where name is not null
    union select name from due where name is not null
    union select name from resting where name is not null
), bound (most) as materialized (
    select greatest(least(100, $1::bigint), least($1::bigint, $2::bigint / greatest(1, count(*)))) from known
)
select known.name::text, now.available, now.running, later.scheduled, later.retryable, rest.waiting,
    (now.available + now.running) >= bound.most or (later.scheduled + later.retryable) >= bound.most or rest.waiting >= bound.most
from known
cross join bound
cross join lateral (
    select count(*) filter (where state = 'available') as available, count(*) filter (where state = 'running') as running
    from (
        select state from fastq.job where job.queue = known.name and seq is not null order by queue, priority, seq
        limit (select most from bound)
    ) as sample
) as now
cross join lateral (
    select count(*) filter (where state = 'scheduled') as scheduled, count(*) filter (where state = 'retryable') as retryable
    from (
        select state from fastq.job where job.queue = known.name and scheduled_at is not null order by queue, scheduled_at
        limit (select most from bound)
    ) as sample
) as later
cross join lateral (
    select count(*) as waiting
    from (
        select from fastq.job where job.queue = known.name and waits_for is not null order by queue, waits_for, priority, id
        limit (select most from bound)
    ) as sample
) as rest
order by known.name
