-- what: writes sheets of events; a second time it changes nothing. It deletes those of the same sources that are older than $7 seconds: no
--       program reads them any more. It looks 1,000 numbers back, six times as far as $7 seconds of sheets: an old snapshot keeps the dead
--       ones before these, and the leader deletes what is left there.
-- called by: work/forwarder: by the batch. Arrays of one length: $1 subscriptions, $2 sources, $3 numbers, $4 events before them, $5 their
--            events, $6 these as JSON.
-- index: event_pkey; subscription_pkey.
-- locks: the rows that it deletes: those of this process, which the leader alone deletes too, and without waiting for anybody.
with gone as (
    delete from fastq.event using unnest($1::bigint[], $2::text[], $3::bigint[]) as given (subscription, source, number)
    where event.subscription = given.subscription and event.source = given.source and event.number > (given.number - 1000)
      and event.at < (clock_timestamp() - ($7::float8 * interval '1 second'))
)
insert into fastq.event (subscription, source, number, start_at, size, events)
select given.subscription, given.source, given.number, given.start_at, given.size, given.events
from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::int[], $6::text[])
    as given (subscription, source, number, start_at, size, events)
where exists (select from fastq.subscription where subscription.id = given.subscription)
on conflict do nothing
