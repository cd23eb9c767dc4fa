-- what: the queues that are known by a job, a row or a living process, with their pause, or else that of all queues (the row '*'), and
--       with the counts of their jobs. In each queue three counts stop at a number, which comes last: those of jobs that are available or
--       run, that wait for a time, and that wait for something else. It is $1, but with many queues less: $2 over all of them, and 100 at least.
-- called by: admin/queues, lead/census: list_queues, and for metrics. The counts are bounded, so that neither a backlog of millions nor
--       thousands of queues hold anybody up. Orders and limits are such that each plan goes by the indexes, whatever the planner knows.
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
), worked as (
    select unnest(string_to_array(queues, ',')) as name, count(*) as processes
    from fastq.process
    where expires_at > clock_timestamp()
      and pid::text <> split_part(supervisor, ':', 2)  -- the number that a supervisor holds ready for its next child
      and coalesce(cardinality(kinds) <> 0, true)  -- an app of singletons alone works no jobs
    group by 1
), known (name) as materialized (
    select name from (
        select name from ready where name is not null
        union select name from due where name is not null
        union select name from resting where name is not null
        union select name from worked union select name from fastq.queue
    ) as each_of_them
    where name <> '*'
), bound (most) as materialized (
    select greatest(least(100, $1::bigint), least($1::bigint, $2::bigint / greatest(1, count(*)))) from known
)
select known.name, queue.paused_at, queue.paused_until, queue.pause_reason, now.available, now.running as claimed, later.scheduled,
    later.retryable, rest.waiting, coalesce(worked.processes, 0) as processes, bound.most as counted_to
from known
cross join bound
left join lateral (
    select paused_at, paused_until, pause_reason from fastq.queue
    where queue.name = any (array[known.name::text, '*']) and paused_at is not null
    order by name desc  -- its own pause before that of all queues: no name comes before '*'
    limit 1
) as queue on true
left join worked on worked.name = known.name
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
