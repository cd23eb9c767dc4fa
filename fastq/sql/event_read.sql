-- what: the next $4 sheets of events for subscription $1: those with the numbers $3 or higher of the sources $2, and all of other sources.
-- called by: subscribing/event_stream, subscribing/event_stream_async: ten times a second.
-- index: event_pkey.
-- locks: none.
select source, number, start_at, size, at, events
from fastq.event
where subscription = $1::bigint and not exists (
    select from unnest($2::text[], $3::bigint[]) as seen (source, number)
    where seen.source = event.source and event.number < seen.number
)
order by at, source, number
limit $4::bigint
