-- what: tells whether all living processes have written a sheet for subscription $1: the first one is written when they begin to hear.
-- called by: subscribing/event_stream, subscribing/event_stream_async: when a stream begins. The source of a sheet is host:pid:random.
-- index: event_pkey.
-- locks: none.
select not exists (
    select from fastq.process
    where expires_at > clock_timestamp() and not exists (
        select from fastq.event
        where event.subscription = $1::bigint and starts_with(event.source, process.host || ':' || process.pid || ':')
    )
)
