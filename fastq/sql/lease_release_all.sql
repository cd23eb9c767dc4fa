-- what: frees all leases of singletons that a dead process holds, and notifies the processes that wait for them. A statement of
--       the dead process may still be under way with the fence of one of them: the next holder of that lease waits for its end.
-- called by: host/recovery: when a child has died. $1 holder, $2 channel (null: no hint).
-- index: none: the table has as many rows as there are leases.
-- locks: the rows.
with released as (
    update fastq.lease set holder = '', expires_at = '-infinity'
    where holder = $1::text and name like 'singleton:%'
    returning name
)
select case when $2::text is not null then pg_notify($2::text, '@lease ' || name) end from released
