-- what: asks for the end of the operation $1; the leader ends it before its next chunk. Tells whether there is one that has not ended.
-- called by: admin/bulk/operations. $2 channel (null: no hint).
-- index: operation_pkey.
-- locks: the operation's row.
with asked as (
    update fastq.operation set cancel_requested = true
    where id = $1::bigint and ended_at is null
    returning id
), woken as (
    select count(pg_notify($2::text, '@operation')) from asked where $2::text is not null
)
select (select count(*) from asked), (select count(*) from woken)
