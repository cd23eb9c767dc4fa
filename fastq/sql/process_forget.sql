-- what: deletes processes that have been expired for more than $4 seconds; says how many.
-- called by: lead/chores/processes. $1-$3 fence.
-- index: none: the table has as many rows as there are worker processes; lease_pkey.
-- locks: the lease's row, for key share; the rows.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), gone as (
    delete from fastq.process
    where exists (select from held) and expires_at < (clock_timestamp() - make_interval(secs => $4::float8))
    returning 1
)
select (select count(*) from held), (select count(*) from gone)
