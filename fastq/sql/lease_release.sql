-- what: frees a lease if it is still the caller's in this term, and notifies the processes that wait for it; no row if it was
--       not.
-- called by: leases/lease. $1 name, $2 holder, $3 term, $4 channel (null: no hint).
-- index: lease_pkey.
-- locks: the row.
with released as (
    update fastq.lease set holder = '', expires_at = '-infinity'
    where name = $1::text and holder = $2::text and term = $3::bigint
    returning name
)
select case when $4::text is not null then pg_notify($4::text, '@lease ' || name) end from released
