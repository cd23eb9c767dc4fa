-- what: the jobs of a queue ($1) that wait for a worker of one of the kinds $2, best priority first, then in the order of their
--       ids: $3 at most, of those with large args as many as $4 bytes hold, counted as in job_claim ($6), without those in $5.
--       Each with its kind, and whether there may be more.
-- called by: work/claim/waiting: before they are claimed.
-- index: job_waiting, skipped from reason to reason, then a range of each.
-- locks: none; job_claim_waiting looks again.
with recursive every (waits_for) as (
    (select waits_for from fastq.job
     where queue = $1::text and waits_for >= 'worker:'
       and not exists (select from fastq.queue where queue.name = any (array[$1::text, '*']) and queue.paused_at is not null)
     order by waits_for limit 1)
    union all
    select (select waits_for from fastq.job where queue = $1::text and waits_for > every.waits_for order by waits_for limit 1)
    from every where starts_with(every.waits_for, 'worker:')
), pick as (
    select found.id, found.kind, found.priority, found.args
    from every
    cross join lateral (
        select id, kind, priority, args from fastq.job
        where queue = $1::text and job.waits_for = every.waits_for and id <> all ($5::bigint[])
        order by priority, id
        limit $3::bigint
    ) as found
    where starts_with(every.waits_for, 'worker:') and substr(every.waits_for, 8) = any ($2::text[])
    order by found.priority, found.id
    limit $3::bigint
), fitting as (
    select id, kind, priority
    from pick
    where case
        when pg_column_size(args) < $6::bigint and pg_column_compression(args) is null then true
        when ('0' || coalesce(current_setting('fastq_claim.bytes', true), ''))::bigint < $4::bigint then
            set_config('fastq_claim.bytes', (('0' || coalesce(current_setting('fastq_claim.bytes', true), ''))::bigint
                + case when pg_column_compression(args) is null then pg_column_size(args)
                    else octet_length(args::text) end)::text, true) is not null
        else false
    end
)
select id, kind::text, (select count(*) from pick) >= $3::bigint or count(*) over () < (select count(*) from pick)
from fitting
order by priority, id
