-- what: puts up to $8 rows of grain $4 that are $7 seconds old, the oldest first, into rows of grain $5, one for each $6 ('minute', 'hour',
--       'day'), queue, kind and outcome: deletes them, and the rows that these are to be added to, and inserts the sums. So a count is in
--       one row before and after, whatever dies. Says how many rows it has taken.
-- called by: lead/observed/statistics. $1-$3 fence.
-- index: stat_at; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes, which nobody else changes while the lease is held.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as materialized (
    select ctid as address
    from fastq.stat
    where exists (select from held) and grain = $4::smallint and at <= (statement_timestamp() - ($7::float8 * interval '1 second'))
    order by at
    limit $8::bigint
), taken as (
    delete from fastq.stat
    where ctid = any (array(select address from old)) and grain = $4::smallint
    returning date_trunc($6::text, at, 'UTC') as at, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts
), there as (
    delete from fastq.stat
    using (select distinct at, queue, kind, outcome from taken) as key
    where stat.grain = $5::smallint and stat.at = key.at and stat.queue = key.queue and stat.kind = key.kind and stat.outcome = key.outcome
    returning stat.at, stat.queue, stat.kind, stat.outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts
), piece as materialized (
    select * from taken union all select * from there
), spread as (
    select at, queue, kind, outcome, array_agg(bin order by bin) as bins, array_agg(count order by bin) as counts
    from (
        select at, queue, kind, outcome, pair.bin, sum(pair.count)::bigint as count
        from piece
        cross join lateral unnest(piece.bins, piece.counts) as pair (bin, count)
        group by at, queue, kind, outcome, pair.bin
    ) as summed
    group by at, queue, kind, outcome
), put as (
    insert into fastq.stat (grain, at, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts)
    select $5::smallint, total.at, total.queue, total.kind, total.outcome, total.jobs, total.runs, total.run_seconds, total.waits,
        total.wait_seconds, coalesce(spread.bins, '{}'), coalesce(spread.counts, '{}')
    from (
        select at, queue, kind, outcome, sum(jobs)::bigint as jobs, sum(runs)::bigint as runs, sum(run_seconds) as run_seconds,
            sum(waits)::bigint as waits, sum(wait_seconds) as wait_seconds
        from piece
        group by at, queue, kind, outcome
    ) as total
    left join spread on spread.at = total.at and spread.queue = total.queue and spread.kind = total.kind and spread.outcome = total.outcome
    returning 1
)
select (select count(*) from held), (select count(*) from taken), (select count(*) from put)
