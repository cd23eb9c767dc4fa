-- what: the queues that are known by a job, a row or a living process, with their pause, or else that of all queues (the row '*'), and
--       with the counts of their jobs. Counts stop at $1: of
--       available and waiting jobs in each queue, of scheduled and retryable jobs over all queues.
-- called by: admin/queues, lead/census: list_queues, and for metrics. The counts are bounded, so that a backlog of millions does not hold
--       anybody up.
-- index: job_ready and job_waiting, skipped from queue to queue; job_due.
-- locks: none.
with recursive ready (name) as (
    (select queue from fastq.job where seq is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where seq is not null and queue > ready.name order by queue limit 1)
    from ready where ready.name is not null
), resting (name) as (
    (select queue from fastq.job where waits_for is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where waits_for is not null and queue > resting.name order by queue limit 1)
    from resting where resting.name is not null
), later as (
    select queue, count(*) filter (where state = 'scheduled') as scheduled, count(*) filter (where state = 'retryable') as retryable
    from (select queue, state from fastq.job where scheduled_at is not null limit $1::bigint) as sample
    group by queue
), worked as (
    select unnest(string_to_array(queues, ',')) as name, count(*) as processes
    from fastq.process
    where expires_at > clock_timestamp()
      and pid::text <> split_part(supervisor, ':', 2)  -- the number that a supervisor holds ready for its next child
      and coalesce(cardinality(kinds) <> 0, true)  -- an app of singletons alone works no jobs
    group by 1
), known (name) as (
    select name from ready where name is not null
    union select name from resting where name is not null
    union select queue from later union select name from worked union select name from fastq.queue
)
select known.name, queue.paused_at, queue.paused_until, queue.pause_reason, available, running as claimed, coalesce(scheduled, 0) as scheduled,
    coalesce(retryable, 0) as retryable, waiting, coalesce(processes, 0) as processes
from known
left join lateral (
    select paused_at, paused_until, pause_reason from fastq.queue
    where queue.name = any (array[known.name::text, '*']) and paused_at is not null
    order by name desc  -- its own pause before that of all queues: no name comes before '*'
    limit 1
) as queue on true
left join later on later.queue = known.name
left join worked on worked.name = known.name
cross join lateral (
    select count(*) filter (where state = 'available') as available, count(*) filter (where state = 'running') as running
    from (select state from fastq.job where job.queue = known.name and seq is not null limit $1::bigint) as sample
) as counted
cross join lateral (
    select count(*) as waiting from (select from fastq.job where job.queue = known.name and waits_for is not null limit $1::bigint) as sample
) as rested
where known.name <> '*'
order by known.name
