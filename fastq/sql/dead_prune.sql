-- what: takes up to $5 discarded jobs that ended more than $4 whole days (UTC) before today off the list of them, and counts them by kind,
--       cause and day. The archive's rows go with their days.
-- called by: lead/chores/partitions: until it answers with less than $5, before days are dropped. $1-$3 fence.
-- index: dead_ended; dead_pkey; lease_pkey; dead_count_pkey.
-- locks: the lease's row, for key share; the rows; those of the counts, in their order.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as materialized (
    select id from fastq.dead
    where finalized_at < (date_trunc('day', statement_timestamp() at time zone 'UTC') - make_interval(days => $4::int)) at time zone 'UTC'
    order by finalized_at, id
    limit $5::bigint
), raised as (
    delete from fastq.dead
    where exists (select from held) and id = any (array(select id from old))
    returning kind, cause, finalized_at
), counted as (
    insert into fastq.dead_count (kind, cause, day, jobs)
    select kind, cause, (finalized_at at time zone 'UTC')::date, count(*)
    from raised
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (kind, cause, day) do update set jobs = dead_count.jobs + excluded.jobs
    returning 1
)
select (select count(*) from held), (select count(*) from raised), (select count(*) from counted)
