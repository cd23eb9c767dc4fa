-- what: deletes the subscriptions that ended $4 seconds ago, and up to $6 sheets of events that are older than $5 seconds or belong to
--       none. Answers with the numbers of both, and of the subscriptions that are left.
-- called by: lead/observed/subscriptions. $1-$3 fence.
-- index: lease_pkey; event_pkey; else none: there are few subscriptions, and each process writes few sheets.
-- locks: the lease's row, for key share; the rows that it deletes; locked ones are skipped.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), gone as (
    delete from fastq.subscription
    where exists (select from held) and expires_at < (clock_timestamp() - ($4::float8 * interval '1 second'))
    returning id
), old as materialized (
    select subscription, source, number
    from fastq.event
    where exists (select from held) and (
        at < (clock_timestamp() - ($5::float8 * interval '1 second'))
        or not exists (select from fastq.subscription where subscription.id = event.subscription)
    )
    limit $6::bigint
    for update skip locked
), swept as (
    delete from fastq.event using old
    where event.subscription = old.subscription and event.source = old.source and event.number = old.number
    returning 1
)
select (select count(*) from held), (select count(*) from gone), (select count(*) from swept),
    (select count(*) from fastq.subscription)
