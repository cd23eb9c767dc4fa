-- what: takes back jobs that this call has made, and their keys, where another one of its jobs was refused.
-- called by: enqueue/uniques: for the clients, in the caller's transaction. $1 ids, joined by a record separator.
-- index: job_pkey; unique_key_pkey; gate_permit_pkey.
-- locks: none but those of the rows that the transaction has made.
with gone as (
    delete from fastq.job
    where id = any (string_to_array($1::text, E'\x1e')::bigint[]) and state <> 'running'
    returning id, meta
), keys as (
    delete from fastq.unique_key using gone
    where unique_key.key = decode((gone.meta -> 'unique'::text) ->> 0, 'hex') and unique_key.job_id = gone.id
    returning 1
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
)
select count(*) from gone
