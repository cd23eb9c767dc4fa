-- what: the queues that no living process works and that are not paused, as all queues may be at once, each with how many jobs are available in it and how many wait for a
--       worker; counts stop at $1.
-- called by: admin/doctor/waits, lead/chores/unworked.
-- index: job_ready and job_waiting, skipped from queue to queue.
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
)
select known.name::text, counted.available, rested.waiting
from (select name from ready where name is not null union select name from resting where name is not null) as known
cross join lateral (
    select count(*) as available
    from (select from fastq.job where job.queue = known.name and seq is not null and state = 'available' limit $1::bigint) as sample
) as counted
cross join lateral (
    select count(*) as waiting
    from (select from fastq.job where job.queue = known.name and waits_for is not null limit $1::bigint) as sample
) as rested
where not exists (
        select from fastq.process
        where process.expires_at > clock_timestamp() and known.name::text = any (string_to_array(process.queues, ','))
          and coalesce(cardinality(process.kinds), 1) > 0
    )
  and not exists (select from fastq.queue where queue.name = any (array[known.name::text, '*']) and paused_at is not null)
  and (counted.available > 0 or rested.waiting > 0)
order by 1
