-- what: notes that an item is acted upon, unless it has been noted before, if the caller's term still holds; says whether it
--       holds, and whether the note is new.
-- called by: leases/singleton: in autocommit or in the caller's transaction. $1 lease, $2 holder, $3 term, $4 item.
-- index: lease_pkey, once_pkey.
-- locks: the new row, until the transaction ends: a second one with the same item waits for it. Not the lease's: a caller's
--        transaction may be long, or its process frozen, and the next holder must not wait for that; the key alone keeps items
--        single.
with holding as materialized (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
), noted as (
    insert into fastq.once (name, item, term)
    select $1::text, $4::text, $3::bigint where exists (select from holding)
    on conflict (name, item) do nothing
    returning 1
)
select (select count(*) from holding) > 0, (select count(*) from noted) > 0
