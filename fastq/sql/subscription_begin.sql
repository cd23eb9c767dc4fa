-- what: begins a subscription with filter $1 (JSON in ASCII), for $2 seconds, unless $3 live already; answers with its id, or with no row.
-- called by: subscribing/event_stream, subscribing/event_stream_async: when a program begins to hear events. $4 channel (null: no hint).
-- index: none, for there are few subscriptions.
-- locks: none.
with living as (
    select count(*) as number from fastq.subscription where expires_at > clock_timestamp()
), begun as (
    insert into fastq.subscription (filter, expires_at)
    select $1::text, clock_timestamp() + ($2::float8 * interval '1 second') from living where number < $3::bigint
    returning id
)
select id, case when $4::text is not null then pg_notify($4::text, '@events') end from begun
