-- what: locks the operation $4 if it has not ended and is at the place $5; tells whether that is so, and whether its end was asked for.
-- called by: lead/bulk/chunks: at the beginning of the transaction of a chunk. $1-$3 fence.
-- index: lease_pkey; operation_pkey.
-- locks: the lease's row, for key share; the operation's row, for no key update.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), mine as materialized (
    select id, cancel_requested from fastq.operation
    where exists (select from held) and id = $4::bigint and ended_at is null and place = $5::text
    for no key update
)
select (select count(*) from held), (select count(*) from mine), coalesce((select cancel_requested from mine), false)
