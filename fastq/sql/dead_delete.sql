-- what: deletes those of the discarded jobs $1 (ids, joined by commas) that ended between $2 and $3; says how many. A job that holds its
--       keys in order gives them up.
-- called by: admin/dead/letters, admin/dead/letters_async. $4 channel (null: no hint).
-- index: dead_pkey; job_archive_id (block ranges); gate_permit_pkey.
-- locks: the rows of the archive in the order of their ids, then those of dead, like job_delete.
with kept as materialized (
    select id from fastq.job_archive
    where id = any (string_to_array($1::text, ',')::bigint[]) and state = 'discarded'
      and finalized_at >= $2::timestamptz and finalized_at <= $3::timestamptz
    order by id
    for update
), erased as (
    delete from fastq.job_archive
    where id = any (string_to_array($1::text, ',')::bigint[]) and state = 'discarded'
      and finalized_at >= $2::timestamptz and finalized_at <= $3::timestamptz and (select count(*) from kept) is not null
    returning id, meta
), raised as (
    delete from fastq.dead
    where id = any (string_to_array($1::text, ',')::bigint[]) and (select count(*) from erased) is not null
    returning id
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from erased where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), woken as (
    select pg_notify($4::text, wake) from (select distinct '@gate' as wake from freed) as hint where $4::text is not null
)
select (select count(*) from raised), (select count(*) from woken)
