-- what: deletes workflows that have ended more than $4 days ago, the oldest of them first, with about $5 steps at a time; says how many.
-- called by: lead/workflow/steward: now and then. $1-$3 fence.
-- index: lease_pkey; workflow_ended; workflow_step_pkey; workflow_edge_child; workflow_pkey.
-- locks: the lease's row, for key share; the deleted rows; workflows that somebody has locked are skipped.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as materialized (
    select id, steps from fastq.workflow
    where exists (select from held) and ended_at < (clock_timestamp() - make_interval(days => $4::int))
    order by ended_at
    limit $5::bigint
    for update skip locked
), few as materialized (
    select id from (select id, sum(steps) over (order by id) - steps as before from old) as counted where before < $5::bigint
), edges as (
    delete from fastq.workflow_edge where workflow in (select id from few)
), steps as (
    delete from fastq.workflow_step where workflow in (select id from few)
), gone as (
    delete from fastq.workflow where id in (select id from few) returning id
)
select (select count(*) from held), (select count(*) from gone)
