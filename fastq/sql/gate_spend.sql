-- what: tells the gatekeeper that something has started beside the jobs that counts at a rate.
-- called by: enqueue/client, enqueue/client_async: spend, in the caller's transaction. $1 gates, as a job would carry them, as a string of
--            JSON in ASCII (for any encoding of a connection), $2 channel (null: no hint).
-- index: none is read.
-- locks: none but the new row.
with spent as (
    insert into fastq.gate_event (queue, gates, jobs, until) values ('', $1::text::json #>> '{}'::text[], 0, clock_timestamp()) returning id
)
select count(pg_notify($2::text, '@gate')) from spent where $2::text is not null
