-- what: the jobs of a queue ($1) that wait for a worker of one of the kinds $2, best priority first, then in the order of their ids: $3 at most, up to
--       the one that takes the args beyond $4 bytes, without those in $5. Each with its kind, and whether there may be more.
-- called by: waiting: before they are claimed.
-- index: job_waiting, skipped from kind to kind, then a range of each.
-- locks: none; job_claim_waiting looks again.
with recursive every (kind) as (
    (select kind from fastq.job
     where queue = $1::text and waits_for = 'worker'
       and not exists (select from fastq.queue where queue.name = $1::text and queue.paused_at is not null)
     order by kind limit 1)
    union all
    select (select kind from fastq.job where queue = $1::text and waits_for = 'worker' and kind > every.kind order by kind limit 1)
    from every where every.kind is not null
), pick as (
    select found.id, every.kind, found.priority, found.size
    from every
    cross join lateral (
        select id, priority, pg_column_size(args) as size from fastq.job
        where queue = $1::text and kind = every.kind and waits_for = 'worker' and id <> all ($5::bigint[])
        order by priority, id
        limit $3::bigint
    ) as found
    where every.kind = any ($2::text[])
    order by found.priority, found.id
    limit $3::bigint
), sized as (
    select id, kind, priority, sum(size) over (order by priority, id rows between unbounded preceding and 1 preceding) as before
    from pick
)
select id, kind::text, (select count(*) from pick) >= $3::bigint or count(*) over () < (select count(*) from pick)
from sized
where before is null or before < $4::bigint
order by priority, id
