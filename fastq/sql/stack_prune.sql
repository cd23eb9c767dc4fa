-- what: deletes the requests for stacks that are older than $4 seconds; says how many, and how many are left.
-- called by: lead/observed/stacks. $1-$3 fence.
-- index: lease_pkey; else none: the table has as many rows as people ask at once.
-- locks: the lease's row, for key share; the rows.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), gone as (
    delete from fastq.stack
    where exists (select from held) and asked_at < (clock_timestamp() - ($4::float8 * interval '1 second'))
    returning 1
)
select (select count(*) from held), (select count(*) from gone), (select count(*) from fastq.stack)
