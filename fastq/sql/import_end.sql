-- what: takes back the notes of the items $2 (joined by a record separator) under the name $1, which were not enqueued, and wakes the queues $3
--       (joined likewise) on commit.
-- called by: admin/exports/importing: at the end of the transaction that enqueues the others. $4 channel (null: no hint).
-- index: once_pkey.
-- locks: rows of its own transaction; the commit takes the lock of NOTIFY for a moment.
with gone as (
    delete from fastq.once where name = $1::text and item = any (string_to_array($2::text, E'\x1e'))
    returning 1
), woken as (
    select count(pg_notify($4::text, wake)) as hints
    from unnest(string_to_array($3::text, E'\x1e')) as hint (wake)
    where $4::text is not null
)
select (select count(*) from gone), (select hints from woken)
