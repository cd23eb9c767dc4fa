-- what: deletes up to $4 records of changes that are $5 days old or older, and as many operations that ended as long ago; says how many.
-- called by: lead/bulk/chunks. $1-$3 fence.
-- index: audit_at; audit_pkey; operation_pkey; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as materialized (
    select id from fastq.audit
    where exists (select from held) and at < (statement_timestamp() - ($5::float8 * interval '1 day'))
    order by at
    limit $4::bigint
), gone as (
    delete from fastq.audit using old where audit.id = old.id returning 1
), past as materialized (
    select id from fastq.operation
    where exists (select from held) and ended_at < (statement_timestamp() - ($5::float8 * interval '1 day'))
    order by id
    limit $4::bigint
), over as (
    delete from fastq.operation using past where operation.id = past.id returning 1
)
select (select count(*) from held), (select count(*) from gone) + (select count(*) from over)
