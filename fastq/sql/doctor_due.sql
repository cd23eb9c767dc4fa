-- what: the queues with jobs whose time has come and that nobody has made available, the latest first: how many (counts stop at $1), and
--       for how many seconds the first of them has been due.
-- called by: admin/doctor/leading.
-- index: job_due: skipped from queue to queue, then a range of each.
-- locks: none.
with recursive every (queue) as (
    (select queue from fastq.job where scheduled_at is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where scheduled_at is not null and queue > every.queue order by queue limit 1)
    from every where every.queue is not null
)
select every.queue::text, counted.jobs, extract(epoch from clock_timestamp() - counted.oldest)::float8
from every
cross join lateral (
    select count(*) as jobs, min(sample.scheduled_at) as oldest
    from (
        select scheduled_at from fastq.job
        where job.queue = every.queue and scheduled_at <= statement_timestamp()
        order by scheduled_at
        limit $1::bigint
    ) as sample
) as counted
where every.queue is not null and counted.jobs > 0
order by counted.oldest
