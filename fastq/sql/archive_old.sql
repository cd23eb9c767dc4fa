-- what: up to $9 finished jobs that ended in a window and are of queue $6 (null: any but those in $7) and of a state in $8,
--       without those in $10. The window begins at $2 (null: $3 days before today) and is $4 seconds long, but ends with its day
--       (UTC) and $5 days before now. Answers with the ids, row addresses (ctid) and queues of the jobs, the window's begin and
--       end, and whether it reaches the age: then all younger jobs are not old enough yet.
-- called by: lead/chores/prune. $1 queues (null or empty: every queue).
-- index: job_archive_id (block ranges) of the one partition that the window's day has.
-- locks: none; archive_prune looks again.
with clock as (
    select clock_timestamp() - ($5::float8 * interval '1 day') as newest,
        coalesce($2::timestamptz, date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC'
            - ($3::float8 * interval '1 day')) as low
), bounds as materialized (
    select low, newest, least(newest, low + ($4::float8 * interval '1 second'),
        (date_trunc('day', low at time zone 'UTC') + interval '1 day') at time zone 'UTC') as high
    from clock
), old as (
    select id, ctid::text as address, queue
    from fastq.job_archive
    where finalized_at >= (select low from bounds) and finalized_at < (select high from bounds)
      and (queue = $6::text or ($6::text is null and queue <> all ($7::text[])))
      and state = any ($8::fastq.state[])
      and not id in (select unnest($10::bigint[]))  -- hashed, as in job_due
      and (coalesce(cardinality($1::text[]), 0) = 0 or queue = any ($1::text[]))
    limit $9::bigint
)
select found.*, bounds.low, bounds.high, bounds.high >= bounds.newest
from bounds
cross join (select coalesce(array_agg(id), '{}'), coalesce(array_agg(address), '{}'), coalesce(array_agg(queue), '{}') from old) as found
