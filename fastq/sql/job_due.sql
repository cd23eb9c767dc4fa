-- what: the ids and queues of up to $2 jobs that are due, those that have waited longest first, each queue its share, without
--       those in $3; and in how many seconds the next job is due that is not due yet (null: none waits).
-- called by: lead/chores/promote. $1 queues (null or empty: every queue).
-- index: job_due: skipped from queue to queue, then a range of each.
-- locks: none; job_promote looks again.
with recursive every (queue) as (
    (select queue from fastq.job where scheduled_at is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where scheduled_at is not null and queue > every.queue order by queue limit 1)
    from every where every.queue is not null
), ours (queue) as (
    select queue::text from every where queue is not null and coalesce(cardinality($1::text[]), 0) = 0
    union all
    select distinct unnest($1::text[])
), late as materialized (
    -- statement_timestamp(), not clock_timestamp(): an index is searched only for a value that stays the same during the statement.
    select queue from ours
    where exists (select from fastq.job where job.queue = ours.queue and scheduled_at <= statement_timestamp())
), due as (
    -- in (select ...), not = any (...): $3 is hashed once, and not gone through for each job that is due.
    select pick.id, late.queue, pick.scheduled_at
    from late
    cross join lateral (
        select id, scheduled_at from fastq.job
        where job.queue = late.queue and scheduled_at <= statement_timestamp() and not id in (select unnest($3::bigint[]))
        order by scheduled_at
        limit greatest($2::bigint / (select count(*) from late), 1)
    ) as pick
), later as (
    select min(next.scheduled_at) as scheduled_at
    from ours
    cross join lateral (
        select scheduled_at from fastq.job
        where job.queue = ours.queue and scheduled_at > statement_timestamp() and scheduled_at < 'infinity'  -- infinity has no seconds
        order by scheduled_at
        limit 1
    ) as next
)
select found.*,
    (select extract(epoch from scheduled_at - clock_timestamp())::float8 from later)
from (
    select coalesce(array_agg(id order by scheduled_at, id), '{}'), coalesce(array_agg(queue order by scheduled_at, id), '{}') from due
) as found
