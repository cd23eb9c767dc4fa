-- what: puts the end of subscription $1 off, to $2 seconds from now; answers with its id, or with no row if that end has come.
-- called by: subscribing/event_stream, subscribing/event_stream_async: every few seconds while a program reads. $3 channel (null: no
--            hint): a process that has missed a hint finds out so.
-- index: subscription_pkey. The UPDATE is HOT.
-- locks: the row.
with renewed as (
    update fastq.subscription set expires_at = clock_timestamp() + ($2::float8 * interval '1 second')
    where id = $1::bigint and expires_at > clock_timestamp()
    returning id
)
select id, case when $3::text is not null then pg_notify($3::text, '@events') end from renewed
