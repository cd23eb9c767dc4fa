-- what: frees all leases of singletons that a dead process holds, and tells those who wait for them. What it still has under way in the
--       database, with the fence of one of them, is awaited by who takes that lease next.
-- called by: host/recovery: when a child has died. $1 holder, $2 channel (null: no hint).
-- index: none: the table has as many rows as there are leases.
-- locks: the rows.
with released as (
    update fastq.lease set holder = '', expires_at = '-infinity'
    where holder = $1::text and name like 'singleton:%'
    returning name
)
select case when $2::text is not null then pg_notify($2::text, '@lease ' || name) end from released
