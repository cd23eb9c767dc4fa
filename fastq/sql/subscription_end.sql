-- what: ends subscription $1. Its events stay until the leader takes them away.
-- called by: subscribing/event_stream, subscribing/event_stream_async: when a program hears no more. $2 channel (null: no hint).
-- index: subscription_pkey.
-- locks: the row.
with ended as (
    delete from fastq.subscription where id = $1::bigint returning id
)
select id, case when $2::text is not null then pg_notify($2::text, '@events') end from ended
