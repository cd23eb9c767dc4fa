-- what: deletes rows of ticks that lie $5 seconds back, up to $6 for each periodic job: never one that is pending or yet to come. Answers with
--       whether the term holds, and the number of rows.
-- called by: lead/chores/periodic. $1-$3 fence, $4 queues (null or empty: all).
-- index: lease_pkey; periodic_tick_pkey.
-- locks: the rows; locked ones are skipped. The lease's row, for key share.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as materialized (
    select past.name, past.tick
    from fastq.periodic cross join lateral (
        select name, tick from fastq.periodic_tick
        where name = periodic.name and tick < least(periodic.next_tick, clock_timestamp() - make_interval(secs => $5::float8))
            and periodic.next_tick is not null
        order by tick
        limit $6::bigint
        for update skip locked
    ) as past
    where exists (select from held) and (coalesce(cardinality($4::text[]), 0) = 0 or queue = any ($4::text[]))
), pruned as (
    delete from fastq.periodic_tick using old
    where periodic_tick.name = old.name and periodic_tick.tick = old.tick
    returning periodic_tick.tick
)
select (select count(*) from held), (select count(*) from pruned)
