-- what: the next $4 sheets of events for subscription $1: those with the numbers $3 or higher of the sources $2, and all of other sources.
--       It reads a range of the index for each known source, and one for each gap between them, where others may have come: dead sheets,
--       which an old snapshot keeps, lie before a range and are not walked over.
-- called by: subscribing/event_stream, subscribing/event_stream_async: ten times a second.
-- index: event_pkey.
-- locks: none.
with seen as materialized (
    select source, number from unnest($2::text[], $3::bigint[]) as given (source, number)
), gap as materialized (
    select coalesce(lag(source) over (order by source collate pg_catalog."C"), '') as low, source as high from seen
    union all
    select coalesce(max(source collate pg_catalog."C"), ''), chr(1114111) from seen
)
select sheet.*
from seen
cross join lateral (
    select source, number, start_at, size, at, events
    from fastq.event
    where subscription = $1::bigint and event.source = seen.source and event.number >= seen.number
    order by number
    limit $4::bigint
) as sheet
union all
select sheet.*
from gap
cross join lateral (
    select source, number, start_at, size, at, events
    from fastq.event
    where subscription = $1::bigint and source > gap.low and source < gap.high
    order by source, number
    limit $4::bigint
) as sheet
order by at, source, number
limit $4::bigint
