-- what: tells whether the term still holds; in a transaction, keeps the lease from being taken by another until its end.
-- called by: lead/chores/partitions, lead/chores/reindex: before statements that cannot carry the fence. $1-$3 fence.
-- index: lease_pkey.
-- locks: the lease's row, for key share.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
)
select (select count(*) from held)
